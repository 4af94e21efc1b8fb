#!/usr/bin/env python3
"""Generates the parts of the clients that follow from schemas/openapi.yaml: operations, fields, documents, error codes.

    python clients/generate.py            rewrites them
    python clients/generate.py --check    fails where they differ from the contract

Writes the section between the two markers in `python/backdrop.py` and the whole of `typescript/src/contract.ts`. Needs PyYAML.
"""
from __future__ import annotations

import difflib
import keyword
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import yaml

CLIENTS = Path(__file__).resolve().parent
CONTRACT = CLIENTS.parent / "schemas" / "openapi.yaml"
PYTHON, TYPESCRIPT = CLIENTS / "python" / "backdrop.py", CLIENTS / "typescript" / "src" / "contract.ts"
BEGIN = "# ---- Generated from schemas/openapi.yaml by clients/generate.py; do not edit ----\n"
END = "# ---- End of the generated section ----\n"

# What a call passes beside its fields: the picture itself, or the pictures, or their addresses.
PICTURES = ("file", "url", "files", "urls")
# The same for all calls: pictures, or the places of a bulk run.
PASSED = (*PICTURES, "from", "to")
# Fields that a caller may also give as numbers; both clients define these types by hand.
HAND_TYPES = {"box": "BoxField", "point": "PointsField", "not_point": "PointsField"}
# Bodies and replies that the contract describes in place, with the names that the clients give them.
BODIES = {"estimate": "EstimateFields", "savePreset": "PresetFields", "bulk": "BulkFields"}
REPLIES = {"estimate": "Estimate", "models": "Models", "account": "Account", "usage": "Usage"}
DOCUMENTS = {"Job": "JobDocument", "SavedPreset": "SavedPreset", "Row": "RowDocument", "Batch": "BatchDocument",
             "Error": "ErrorDocument"}
# Schemas that stay references.
REFERENCES = {"Row": "RowDocument", "ErrorCode": "ErrorCode", "Reason": "Reason"}
RENAMED = {"UsageUsage": "UsageRow", "ModelsModels": "Model"}


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def camel(name: str) -> str:
    return "".join(part.capitalize() for part in re.split(r"[_-]", name))


class Contract:
    def __init__(self) -> None:
        self.document: dict[str, Any] = yaml.safe_load(CONTRACT.read_text())
        self.operations: dict[str, tuple[str, str, dict[str, Any]]] = {}
        for path, methods in self.document["paths"].items():
            for method, operation in methods.items():
                if method in ("get", "post", "put", "patch", "delete"):
                    self.operations[operation["operationId"]] = (method.upper(), path, operation)

    def resolve(self, node: dict[str, Any]) -> dict[str, Any]:
        if "$ref" not in node:
            return node
        found: Any = self.document
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return {**self.resolve(found), **{key: value for key, value in node.items() if key not in ("$ref", "x-origin")}}

    def schema(self, name: str) -> dict[str, Any]:
        return self.document["components"]["schemas"][name]

    def body(self, operation: dict[str, Any]) -> dict[str, Any] | None:
        """The schema of the fields: of the form where there is one, of the JSON otherwise."""
        content = self.resolve(operation.get("requestBody", {})).get("content", {})
        # /remove-url reads a form too, which its contract describes in short; the JSON body has all fields.
        media = ("application/json", "multipart/form-data")
        schemas = [self.resolve(content[name]["schema"]) for name in media if name in content]
        complete = [schema for schema in schemas if schema.get("additionalProperties") is False]
        return (complete or schemas or [None])[-1]

    def success(self, operation: dict[str, Any]) -> dict[str, Any]:
        return self.resolve(next(reply for status, reply in operation["responses"].items() if status.startswith("2")))

    def answers_picture(self, operation: dict[str, Any]) -> bool:
        return "image/png" in self.success(operation).get("content", {})

    def has_header(self, operation: dict[str, Any], name: str) -> bool:
        return any(self.resolve(one)["name"] == name for one in operation.get("parameters", []))


class Language:
    """What differs between the two."""

    file: str

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self.nested: list[str] = []

    def type_of(self, schema: dict[str, Any], name: str, *, of_input: bool) -> str:
        if of_input and name.rsplit(".", 1)[-1] in HAND_TYPES:
            return HAND_TYPES[name.rsplit(".", 1)[-1]]
        reference = schema.get("$ref", "").rsplit("/", 1)[-1]
        if reference in REFERENCES:
            return REFERENCES[reference]
        schema = self.contract.resolve(schema)
        if "const" in schema:
            return self.literal([schema["const"]])
        if "enum" in schema:
            return self.literal(schema["enum"])
        if "anyOf" in schema:
            return self.union(dict.fromkeys(self.type_of(one, name, of_input=of_input) for one in schema["anyOf"]))
        kind = schema.get("type")
        if isinstance(kind, list):
            return self.union(self.type_of({**schema, "type": one}, name, of_input=of_input) for one in kind)
        if kind == "array":
            return self.array(self.type_of(schema["items"], name, of_input=of_input))
        if kind == "object" and schema.get("properties"):
            title = "".join(part[:1].upper() + part[1:] for part in re.split(r"[._]", name))
            title = RENAMED.get(title, title)
            self.nested.append(self.record(title, schema, of_input=of_input))
            return title
        if kind == "string" and schema.get("format") == "binary":
            return self.file
        return self.primitive(kind, of_input=of_input)

    def literal(self, values: list[Any]) -> str:
        raise NotImplementedError

    def union(self, types: Any) -> str:
        return " | ".join(types)

    def array(self, item: str) -> str:
        raise NotImplementedError

    def primitive(self, kind: str | None, *, of_input: bool) -> str:
        raise NotImplementedError

    def record(self, name: str, schema: dict[str, Any], *, of_input: bool, base: str | None = None, about: str = "") -> str:
        raise NotImplementedError

    def documents(self) -> list[str]:
        """The JSON documents of replies, those in them first."""
        text = []
        for name, title in DOCUMENTS.items():
            text.append(self.named(title, self.contract.schema(name), of_input=False))
        for operation, title in REPLIES.items():
            reply = self.contract.success(self.contract.operations[operation][2])
            text.append(self.named(title, reply["content"]["application/json"]["schema"], of_input=False))
        return text

    def named(self, title: str, schema: dict[str, Any], *, of_input: bool) -> str:
        self.nested = []
        record = self.record(title, schema, of_input=of_input, about=self.text(schema.get("description", "")))
        return "".join(self.nested) + record

    @staticmethod
    def text(description: str) -> str:
        return " ".join(description.split())

    def fields(self) -> list[str]:
        """The fields of every operation; those that are the same for all endpoints of pictures are written once."""
        contract = self.contract
        bodies = {}
        for name, (_, _, operation) in contract.operations.items():
            schema = contract.body(operation)
            if schema and name not in BODIES and operation["responses"].keys() & {"200", "202"} and any(
                    key in schema.get("properties", {}) for key in PICTURES):
                bodies[name] = self.without_passed(schema)
        pictures = [body["properties"] for name, body in bodies.items() if name != "videoRemove"]
        shared = {key: value for key, value in pictures[0].items()
                  if all(contract.resolve(one.get(key, {})) == contract.resolve(value) for one in pictures)}
        self.nested = []
        text = [self.record("SharedFields", {"properties": shared}, of_input=True, about="Fields of every endpoint of pictures.")]
        for name, body in bodies.items():
            base = None if name == "videoRemove" else "SharedFields"
            own = {key: value for key, value in body["properties"].items() if base is None or key not in shared}
            path = contract.operations[name][1]
            title = name[0].upper() + name[1:] + "Fields"
            text.append(self.record(title, {**body, "properties": own}, of_input=True, base=base, about=f"Fields of `{path}`."))
        for name, title in BODIES.items():
            body = contract.body(contract.operations[name][2]) or {"properties": {}}
            text.append(self.named(title, self.without_passed(body), of_input=True))
        return text

    @staticmethod
    def without_passed(schema: dict[str, Any]) -> dict[str, Any]:
        return {**schema, "properties": {key: value for key, value in schema["properties"].items() if key not in PASSED}}


def wrapped(text: str, indent: str, width: int) -> list[str]:
    return textwrap.wrap(text, width - len(indent), break_long_words=False, break_on_hyphens=False)


class Python(Language):
    file = "File"

    def literal(self, values: list[Any]) -> str:
        return f"Literal[{', '.join(repr(value) if not isinstance(value, str) else chr(34) + value + chr(34) for value in values)}]"

    def array(self, item: str) -> str:
        return f"list[{item}]"

    def primitive(self, kind: str | None, *, of_input: bool) -> str:
        return {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None",
                "object": "dict[str, Any]"}[kind or "object"]

    def record(self, name: str, schema: dict[str, Any], *, of_input: bool, base: str | None = None, about: str = "") -> str:
        required = set(schema.get("required", []))
        lines = self.docstring(about, "    ") if about else []
        # Keywords of Python cannot be attributes of a class; they come from a base that names them as text.
        keywords = []
        for key, field in schema["properties"].items():
            type_name = self.type_of(field, key if of_input else f"{name}.{key}", of_input=of_input)
            if key in required:
                type_name = f"Required[{type_name}]"
            elif of_input:
                type_name += " | None"
            if keyword.iskeyword(key):
                keywords.append(f'"{key}": {type_name}')
                continue
            lines.append(f"    {key}: {type_name}")
            description = self.contract.resolve(field).get("description")
            if description:
                lines += self.docstring(self.text(description), "    ")
        bases = [base] if base else []
        before = ""
        if keywords:
            bases.append(f"_{name}Keywords")
            before = f'_{name}Keywords = TypedDict("_{name}Keywords", {{{", ".join(keywords)}}}, total=False)\n\n\n'
        head = f"class {name}({', '.join(bases) or 'TypedDict'}, total=False):"
        return before + "\n".join([head, *(lines or ["    pass"])]) + "\n\n\n"

    def docstring(self, text: str, indent: str) -> list[str]:
        text = text.replace("\\", "\\\\")
        parts = wrapped(text, indent + '"""""" ', 116)
        parts[0] = '"""' + parts[0]
        closing = '"""' if not parts[-1].endswith('"') else ' """'
        if len(parts) == 1:
            parts[0] += closing
        else:
            parts.append('"""')
        return [indent + part for part in parts]

    def generate(self) -> str:
        contract = self.contract
        status = contract.schema("ErrorCode")["x-status"]
        text = []
        for name in ("ErrorCode", "Reason"):
            text += [f"{name} = Literal[\n", *(f'    "{value}",\n' for value in contract.schema(name)["enum"]), "]\n"]
        text.append(f'_CONTRACT_VERSION = "{contract.document["info"]["version"]}"\n\n')
        text.append("# Method, path, and whether it takes an Idempotency-Key.\n_OPERATIONS: dict[str, tuple[str, str, bool]] = {\n")
        for name, (method, path, operation) in contract.operations.items():
            text.append(f'    "{name}": ("{method}", "{path}", {contract.has_header(operation, "Idempotency-Key")}),\n')
        text.append("}\n\n\n")
        text += self.fields()
        text += self.documents()
        for code in contract.schema("ErrorCode")["enum"]:
            title = camel(code.removesuffix("_error"))
            text.append(f'class {title}Error(ApiError):\n    """`{code}`, status {status[code]}."""\n\n\n')
        text.append("_ERRORS: dict[str, type[ApiError]] = {\n")
        text += [f'    "{code}": {camel(code.removesuffix("_error"))}Error,\n' for code in contract.schema("ErrorCode")["enum"]]
        text.append("}\n\n\n")
        text.append(self.methods("_PictureMethods", "", ""))
        text.append(self.methods("_AsyncPictureMethods", "async ", "await "))
        return "".join(text)

    def methods(self, title: str, prefix: str, wait: str) -> str:
        lines = [f"class {title}:", '    """The endpoints that answer one picture."""', ""]
        lines += [f"    {prefix}def _picture(self, operation: str, picture: Picture, fields: Mapping[str, Any], **call: Any) -> ImageResult:",
                  "        raise NotImplementedError", ""]
        for name, (_, path, operation) in self.contract.operations.items():
            if not self.contract.answers_picture(operation):
                continue
            lines += [f"    {prefix}def {snake(name)}(",
                      "        self,",
                      "        picture: Picture,",
                      "        *,",
                      "        service_model: str | None = None,",
                      "        idempotency_key: str | None = None,",
                      "        timeout: float | None = None,",
                      f"        **fields: Unpack[{name[0].upper() + name[1:]}Fields],",
                      "    ) -> ImageResult:"]
            lines += self.docstring(f"{self.text(operation['summary'])} `POST {path}`", "        ")
            lines += [f"        return {wait}self._picture(",
                      f'            "{name}", picture, fields, service_model=service_model, idempotency_key=idempotency_key, timeout=timeout',
                      "        )", ""]
        return "\n".join(lines) + "\n\n"


class TypeScript(Language):
    file = "FileInput"

    def literal(self, values: list[Any]) -> str:
        return " | ".join(f'"{value}"' if isinstance(value, str) else str(value).lower() for value in values)

    def array(self, item: str) -> str:
        return f"({item})[]" if "|" in item else f"{item}[]"

    def primitive(self, kind: str | None, *, of_input: bool) -> str:
        return {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null",
                "object": "Record<string, unknown>"}[kind or "object"]

    def record(self, name: str, schema: dict[str, Any], *, of_input: bool, base: str | None = None, about: str = "") -> str:
        required = set(schema.get("required", []))
        lines = self.comment(about, "") if about else []
        lines.append(f"export interface {name}{' extends ' + base if base else ''} {{")
        for key, field in schema["properties"].items():
            type_name = self.type_of(field, key if of_input else f"{name}.{key}", of_input=of_input)
            description = self.contract.resolve(field).get("description")
            if description:
                lines += self.comment(self.text(description), "  ")
            lines.append(f"  {key}{'' if key in required else '?'}: {type_name}{' | undefined' if of_input and key not in required else ''};")
        lines.append("}")
        return "\n".join(lines) + "\n\n"

    def comment(self, text: str, indent: str) -> list[str]:
        text = text.replace("*/", "*\\/")
        if len(indent) + len(text) + 7 <= 120:
            return [f"{indent}/** {text} */"]
        return [f"{indent}/**", *(f"{indent} * {part}" for part in wrapped(text, indent + " * ", 120)), f"{indent} */"]

    def generate(self) -> str:
        contract = self.contract
        text = ["// Generated from schemas/openapi.yaml by clients/generate.py; do not edit.\n\n"]
        text.append('import type { BoxField, CallOptions, FileInput, Picture, PointsField } from "./fields.js";\nimport type { ImageResult } from "./image.js";\n\n')
        text.append(f'/** Version of the contract. */\nexport const CONTRACT_VERSION = "{contract.document["info"]["version"]}";\n\n')
        text.append("/** Method, path, and whether it takes an Idempotency-Key. */\nexport const OPERATIONS = {\n")
        for name, (method, path, operation) in contract.operations.items():
            text.append(f'  {name}: ["{method}", "{path}", {str(contract.has_header(operation, "Idempotency-Key")).lower()}],\n')
        text.append("} as const;\n\n/** An operation of the contract. */\nexport type Operation = keyof typeof OPERATIONS;\n\n")
        for name, about in (("ErrorCode", "Codes of errors."), ("Reason", "Finer than the code, where it is known.")):
            values = "\n".join(f'  | "{value}"' for value in contract.schema(name)["enum"])
            text.append(f"/** {about} */\nexport type {name} =\n{values};\n\n")
        text += self.fields()
        text += self.documents()
        text.append("/** The endpoints that answer one picture. */\nexport abstract class PictureMethods {\n")
        text.append("  /** Sends one picture to an operation. */\n  protected abstract picture(operation: Operation, picture: Picture, options: object): Promise<ImageResult>;\n")
        for name, (_, path, operation) in contract.operations.items():
            if not contract.answers_picture(operation):
                continue
            fields = name[0].upper() + name[1:] + "Fields"
            required = any(key not in PICTURES for key in (contract.body(operation) or {}).get("required", []))
            lines = self.comment(f"{self.text(operation['summary'])} `POST {path}`", "  ")
            lines += [f"  {name}(picture: Picture, options: {fields} & CallOptions{'' if required else ' = {}'}): Promise<ImageResult> {{",
                      f'    return this.picture("{name}", picture, options);', "  }"]
            text.append("\n" + "\n".join(lines) + "\n")
        text.append("}\n")
        return "".join(text)


def main() -> None:
    contract = Contract()
    source = PYTHON.read_text()
    before, rest = source.split(BEGIN)
    _, after = rest.split(END)
    wanted = {PYTHON: before + BEGIN + "\n" + Python(contract).generate() + END + after,
              TYPESCRIPT: TypeScript(contract).generate()}
    stale = False
    for path, text in wanted.items():
        present = path.read_text() if path.exists() else ""
        if "--check" not in sys.argv[1:]:
            path.write_text(text)
        elif present != text:
            stale = True
            name = path.relative_to(CLIENTS.parent).as_posix()
            sys.stdout.writelines(list(difflib.unified_diff(present.splitlines(True), text.splitlines(True), name, "from the contract"))[:60])
    if stale:
        sys.exit("the generated parts of the clients are not those of schemas/openapi.yaml; run: make clients-generate")


if __name__ == "__main__":
    main()
