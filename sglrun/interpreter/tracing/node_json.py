"""Nodes as JSON: the steps of a graph written, and read back."""

import base64
from collections.abc import Mapping
from typing import Any

from sglrun.interpreter.tracing.graph import Graph, Node
from sglrun.interpreter.tracing.outcome import (
    NOTHING,
    outcome_from_json,
    outcome_json,
)
from sglrun.interpreter.tracing.value import (
    fragments_json,
    fragments_of,
    value_of,
)
from sglrun.lang.prompt import ImageData, VideoData


def graph_json(graph: Graph) -> dict[str, object]:
    """Return *graph* as JSON values; empty fields are left out."""
    return {
        "nodes": [node_json(node) for node in graph.nodes],
        "edges": [
            {"from": start, "to": end, "kind": kind}
            for start, end, kind in graph.edges()
        ],
    }


def node_json(node: Node, *, whole: bool = False) -> dict[str, object]:
    """Return *node* as JSON values; empty fields are left out.

    Args:
        node: what is written.
        whole: with all that ``node_from_json`` needs, not only what people read.
    """
    written: dict[str, object] = {
        "id": node.id,
        "kind": node.kind,
        "stream": node.stream,
        "where": node.where,
        "name": node.name,
        "text": fragments_json(node.fragments),
        "value": outcome_json(node.value),
        "parameters": {key: _json(each) for key, each in node.parameters.items()},
        "choices": [fragments_json(choice) for choice in node.choices],
        "streams": list(node.streams),
    }
    if whole:
        written |= {
            "follows": list(node.follows),
            "prompt": fragments_json(node.prompt),
            "checks": [value.as_json() for value in node.checks],
            "image": None if node.image is None else _image_json(node.image),
        }
    return {key: each for key, each in written.items() if each not in (None, [], {})}


def _json(value: object) -> object:
    if isinstance(value, Mapping) and not all(isinstance(key, str) for key in value):
        return {"pairs": [[key, each] for key, each in value.items()]}
    return value


def _image_json(image: ImageData) -> dict[str, object]:
    made: dict[str, object] = {"base64": image.base64, "media_type": image.media_type}
    if isinstance(image, VideoData):
        made |= {"video": True, "num_frames": image.num_frames}
    return made


def _image_of(given: Any) -> ImageData:
    data, kind = base64.b64decode(given["base64"]), given["media_type"]
    if "video" not in given:
        return ImageData(data=data, media_type=kind)
    return VideoData(data=data, media_type=kind, num_frames=given["num_frames"])


def node_from_json(given: Any) -> Node:
    """Return the step that ``node_json`` wrote."""
    value = outcome_from_json(given["value"]) if "value" in given else NOTHING
    return Node(
        id=given["id"],
        kind=given["kind"],
        stream=given["stream"],
        follows=tuple(given.get("follows", ())),
        where=given.get("where"),
        name=given.get("name"),
        fragments=fragments_of(given.get("text", ())),
        parameters=_parameters(given.get("parameters", {})),
        choices=tuple(map(fragments_of, given.get("choices", ()))),
        streams=tuple(given.get("streams", ())),
        value=value,
        prompt=fragments_of(given.get("prompt", ())),
        checks=tuple(map(value_of, given.get("checks", ()))),
        image=_image_of(given["image"]) if "image" in given else None,
    )


def _parameters(given: Mapping[str, object]) -> dict[str, object]:
    return {name: _plain(value) for name, value in given.items()}


def _plain(value: object) -> object:
    if isinstance(value, dict) and value.keys() == {"pairs"}:
        return dict(value["pairs"])
    return tuple(map(_plain, value)) if isinstance(value, list) else value
