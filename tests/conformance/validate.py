#!/usr/bin/env python3
"""Validates schemas/openapi.yaml as OpenAPI 3.1, with a strict reader and without a daemon.

    python tests/conformance/validate.py [FILE]

Refused beside what openapi-spec-validator refuses: a key that is there twice, an empty value (an unquoted comma or colon
makes one), and an example or a default that its own schema does not take.
"""
import sys
from pathlib import Path

import jsonschema
import openapi_spec_validator
import yaml

CONTRACT = Path(__file__).resolve().parents[2] / "schemas" / "openapi.yaml"


class Strict(yaml.SafeLoader):
    """Without merge keys, anchors and repeated keys."""

    def compose_node(self, parent, index):
        event = self.peek_event()
        if getattr(event, "anchor", None):
            raise yaml.YAMLError(f"an anchor or alias{event.start_mark}")
        return super().compose_node(parent, index)

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1 or key == "<<":
                raise yaml.YAMLError(f"`{key}` is repeated or a merge key{node.start_mark}")
        return super().construct_mapping(node, deep)


def problems(value, place=""):
    if value is None:
        yield f"{place} is empty"
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from problems(item, f"{place}/{at}")
    elif isinstance(value, dict):
        if "type" in value or "anyOf" in value:
            schema = {key: it for key, it in value.items() if not key.startswith("x-")}
            examples = list(value.get("examples", [])) + ([value["default"]] if "default" in value else [])
            for example in examples:
                if not jsonschema.Draft202012Validator(schema).is_valid(example):
                    yield f"{place}: its schema does not take {example!r}"
        for key, item in value.items():
            yield from problems(item, f"{place}/{key}")


def main():
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else CONTRACT
    contract = yaml.load(file.read_text(encoding="utf-8"), Strict)
    found = list(problems(contract))
    if found:
        sys.exit("\n".join(found))
    openapi_spec_validator.validate(contract)
    print(f"{file.name}: valid OpenAPI {contract['openapi']}, {len(contract['paths'])} paths")


if __name__ == "__main__":
    main()
