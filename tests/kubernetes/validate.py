"""Checks deploy/kubernetes: validate.py BINARY.

Every object against the schemas of Kubernetes, strictly; arguments and settings against the binary; names that objects use against those
that exist. The schemas have no custom resources: of KEDA's only the names are checked.
"""

import pathlib
import subprocess
import sys

import kubernetes_validate
import yaml

KUBERNETES = "1.37"
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "deploy/kubernetes"
CUSTOM = "keda.sh/"


def objects():
    """The file and object of each document."""
    for path in sorted(FOLDER.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            yield path.name, document


def containers(document):
    """The containers of an object that makes pods."""
    return document.get("spec", {}).get("template", {}).get("spec", {}).get("containers", [])


def check(binary):
    """Every mistake, as a sentence."""
    found = list(objects())
    names = {(document["kind"], document["metadata"]["name"]) for _, document in found}
    settings = {}
    for _, document in found:
        settings |= document.get("data", {}) if document["kind"] == "ConfigMap" else {}
        settings |= document.get("stringData", {}) if document["kind"] == "Secret" else {}
    for file, document in found:
        what = f"{file}: {document['kind']} {document['metadata']['name']}"
        if not document["apiVersion"].startswith(CUSTOM):
            try:
                kubernetes_validate.validate(document, KUBERNETES, strict=True)
            except kubernetes_validate.ValidationError as error:
                yield f"{what}: {error.message}"
        for container in containers(document):
            # Options are parsed up to --help; an unknown one ends with an error.
            parsed = subprocess.run([binary, *container["args"], "--help"], capture_output=True, text=True)
            if parsed.returncode:
                yield f"{what}: {parsed.stderr}"
            for source in container.get("envFrom", []):
                for kind, reference in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
                    if reference in source and (kind, source[reference]["name"]) not in names:
                        yield f"{what}: no {kind} {source[reference]['name']}"
            for variable in container.get("env", []):
                for reference in variable.get("valueFrom", {}).values():
                    if reference["key"] not in settings:
                        yield f"{what}: no setting {reference['key']}"
        spec = document.get("spec", {})
        if document["kind"] == "ScaledObject":
            if ("Deployment", spec["scaleTargetRef"]["name"]) not in names:
                yield f"{what}: no Deployment {spec['scaleTargetRef']['name']}"
            for trigger in spec["triggers"]:
                if ("TriggerAuthentication", trigger["authenticationRef"]["name"]) not in names:
                    yield f"{what}: no TriggerAuthentication {trigger['authenticationRef']['name']}"
        for target in spec.get("secretTargetRef", []) if document["kind"] == "TriggerAuthentication" else []:
            if ("Secret", target["name"]) not in names or target["key"] not in settings:
                yield f"{what}: no setting {target['key']} in Secret {target['name']}"
        if document["kind"] in ("Service", "PodDisruptionBudget"):
            selector = spec["selector"].get("matchLabels", spec["selector"])
            pods = [other["spec"]["template"]["metadata"].get("labels") for _, other in found if other["kind"] == "Deployment"]
            if selector not in pods:
                yield f"{what}: selects no pods"
    environment = {name: value for name, value in settings.items() if name.startswith("BACKDROP_")}
    printed = subprocess.run([binary, "config"], env=environment, capture_output=True, text=True)
    if printed.returncode:
        yield f"settings.yaml: {printed.stderr}"
    if len(found) < 10:
        yield f"only {len(found)} objects were found"


def main():
    mistakes = list(check(sys.argv[1]))
    print("\n".join(mistakes) or "deploy/kubernetes is valid")
    sys.exit(bool(mistakes))


if __name__ == "__main__":
    main()
