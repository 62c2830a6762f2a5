"""The backend for servers in OpenAI's shape, and the detection of what answers."""

import json
from typing import Any

import pytest

from sglrun.backends.base import BackendOptions, Request, Secret, SelectRequest
from sglrun.backends.detection import split_prefix
from sglrun.backends.openai import create
from sglrun.errors import (
    AuthenticationError,
    BackendUnavailableError,
    BackendUnreachableError,
    ConfigError,
    ResponseError,
    UnsupportedFeatureError,
)
from sglrun.lang.choices import token_length_normalized
from sglrun.lang.prompt import ImageData, Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams
from tests import stand_in as faults
from tests.stand_in import StandIn


def chat(answer: str = "") -> Prompt:
    asked = Prompt().with_role_begin("system").with_text("S").with_role_end("system")
    asked = asked.with_role_begin("user").with_text(" hi ").with_role_end("user")
    return asked.with_role_begin("assistant").with_text(answer)


def seeing() -> Prompt:
    """Return a prompt that no server scores options after."""
    asked = Prompt().with_role_begin("user").with_image(ImageData(data=b"x"))
    return asked.with_role_end("user").with_role_begin("assistant")


def request(prompt: Prompt, **sampling: Any) -> Request:
    return Request(prompt=prompt, sampling=SamplingParams.of(**sampling).over(DEFAULTS))


@pytest.mark.parametrize(
    ("url", "address", "prefixes"),
    [
        ("http://h:1", "http://h:1", ("/v1", "")),
        ("http://h:1/", "http://h:1", ("/v1", "")),
        ("http://h:1/v1/", "http://h:1", ("/v1",)),
        ("https://g/openai/v1", "https://g/openai", ("/v1",)),
        ("https://g/v1beta/openai", "https://g/v1beta/openai", ("",)),
    ],
)
def test_the_api_is_found_from_any_form_of_url(
    url: str, address: str, prefixes: tuple[str, ...]
) -> None:
    """``/v1`` may be there or not, with a slash or not."""
    assert split_prefix(url) == (address, prefixes)


@pytest.mark.parametrize("kind", ["vllm", "sglang", "llama-server"])
@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/"])
def test_the_server_is_recognised(stand_in: StandIn, kind: Any, end: str) -> None:
    """The owner of its models tells the dialect, and the only model is taken."""
    stand_in.model.kind = kind
    with create(BackendOptions(url=stand_in.url + end)) as backend:
        assert backend.dialect.name == kind
        assert backend.model == "stand-in"


@pytest.mark.parametrize(
    ("kind", "dialect"), [("sglang", "sglang"), ("openai", "generic")]
)
def test_a_server_that_hides_its_models_is_asked_otherwise(
    stand_in: StandIn, kind: Any, dialect: str
) -> None:
    """Without a list of models the other addresses tell, and the model is named."""
    stand_in.model.kind = kind
    stand_in.fail_always(faults.status(500), "/v1/models")
    with create(BackendOptions(url=stand_in.url, model="m")) as backend:
        assert (backend.dialect.name, backend.model) == (dialect, "m")


def test_several_models_want_a_choice(stand_in: StandIn) -> None:
    """The models are listed in the error."""
    stand_in.model.models = ("a", "b")

    with pytest.raises(ConfigError, match="--model: a, b"):
        create(BackendOptions(url=stand_in.url))


def test_no_list_and_no_name_is_an_error(stand_in: StandIn) -> None:
    """Where no model is listed, one must be named."""
    for path in ("/v1/models", "/models"):
        stand_in.fail_always(faults.status(404, {"detail": "Not Found"}), path)

    with pytest.raises(ConfigError, match="name one with --model"):
        create(BackendOptions(url=stand_in.url))


def test_a_server_that_is_not_ready_says_so(stand_in: StandIn) -> None:
    """A server that loads its model is no matter of configuration."""
    stand_in.fail_always(faults.status(503, {"error": "Loading model"}))

    with pytest.raises(BackendUnavailableError, match="Loading model"):
        create(BackendOptions(url=stand_in.url))


def test_a_wrong_key_is_found_at_once(stand_in: StandIn) -> None:
    """The key is tried before the first row, and the right one is taken."""
    stand_in.api_key = "sk-right"
    wrong = BackendOptions(url=stand_in.url, api_key=Secret(value="sk-wrong-1"))

    with pytest.raises(AuthenticationError, match="--api-key-env"):
        create(wrong)
    create(BackendOptions(url=stand_in.url, api_key=Secret(value="sk-right"))).close()


def test_a_key_that_may_not_list_is_tried_on_rows(stand_in: StandIn) -> None:
    """A key may be allowed to generate and not to list models."""
    stand_in.fail_always(faults.status(403), "/v1/models")
    stand_in.fail_always(faults.status(403), "/models")

    create(BackendOptions(url=stand_in.url, model="m")).close()


def test_openai_wants_a_key() -> None:
    """Without a URL and a key nothing is asked, and the variable is named."""
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        create(BackendOptions())


def test_nothing_there_is_unreachable() -> None:
    """A server that is not there is found when the backend is made."""
    with pytest.raises(BackendUnreachableError, match="nothing listens there"):
        create(BackendOptions(url="http://127.0.0.1:1/v1"))


@pytest.mark.parametrize("kind", ["vllm", "sglang", "llama-server", "openai"])
def test_a_server_that_ignores_the_choice_is_found(
    stand_in: StandIn, kind: Any
) -> None:
    """An option that was not asked for is never taken."""
    stand_in.model.kind = kind
    stand_in.model.ignore_constraints = True
    with create(BackendOptions(url=stand_in.url)) as backend:
        asked = SelectRequest(prompt=seeing(), choices=("yes", "no"))
        with pytest.raises(ResponseError, match="ignores the constraint"):
            backend.select(asked)


@pytest.mark.parametrize("kind", ["vllm", "sglang", "llama-server", "openai"])
def test_any_option_can_be_written(stand_in: StandIn, kind: Any) -> None:
    """Quotes, line ends and signs of patterns in an option are kept."""
    stand_in.model.kind = kind
    option = 'a "b"\n(c|d)* \\ \u00e9'
    with create(BackendOptions(url=stand_in.url)) as backend:
        asked = SelectRequest(prompt=seeing(), choices=(option, "x"))
        selection = backend.select(asked)

    assert selection.chosen == option


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
@pytest.mark.parametrize("answer", ["", "It is "])
def test_options_in_a_chat_are_scored(
    stand_in: StandIn, answer: str, kind: Any
) -> None:
    """In a chat the server writes the turns, and the options' own tokens are scored."""
    stand_in.model.kind = kind
    stand_in.model.logprobs = {"yes": -0.5, " yes": -0.5, "no": -0.2, " way": -1.5}
    asked = SelectRequest(prompt=chat(answer), choices=("yes", "no way"))
    with create(BackendOptions(url=stand_in.url)) as backend:
        scores = backend.select(asked).scores

    assert [score.choice for score in scores] == ["yes", "no way"]
    assert [t.text.strip() for t in scores[1].tokens] == ["no", "way"]
    assert token_length_normalized(scores).choice == "yes"


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_only_the_options_tokens_are_scored(stand_in: StandIn, kind: Any) -> None:
    """The mean is over the option's own tokens, also where it melts into the prompt."""
    stand_in.model.kind = kind
    stand_in.model.logprobs = {" yes": -0.5, " no": -0.2, " way": -1.5, ":": -9.0}
    with create(BackendOptions(url=stand_in.url)) as backend:
        selection = backend.select(
            SelectRequest(
                prompt=Prompt(text="Is it so:"),
                choices=(" yes", " no way"),
                unconditional=True,
            )
        )
        melted = backend.select(
            SelectRequest(prompt=Prompt(text="It is un"), choices=("do",))
        )
        empty = backend.select(SelectRequest(prompt=Prompt(), choices=("a b", "c")))

    assert [score.mean for score in selection.scores] == pytest.approx([-0.5, -0.85])
    assert token_length_normalized(selection.scores).choice == " yes"
    assert [s.unconditional for s in selection.scores] == [(0.0,), (0.0, -1.5)]
    assert [t.text for t in melted.scores[0].tokens] == [" undo"]
    assert [len(score.tokens) for score in empty.scores] == [2, 1]


def test_a_gateway_that_hides_the_native_way_leaves_no_scores(
    stand_in: StandIn,
) -> None:
    """SGLang behind what lets only ``/v1`` through is made to write an option."""
    for path in ("/model_info", "/get_model_info"):
        stand_in.fail_always(faults.status(404), path)
    asked = SelectRequest(prompt=Prompt(text="Q:"), choices=(" a", " b"))
    with create(BackendOptions(url=f"{stand_in.url}/v1")) as backend:
        assert not backend.capabilities.choice_scores
        assert backend.select(asked).chosen in asked.choices


@pytest.mark.parametrize("kind", ["sglang", "llama-server"])
@pytest.mark.parametrize("sees", [True, False])
def test_a_server_tells_whether_its_model_sees(
    stand_in: StandIn, kind: Any, *, sees: bool
) -> None:
    """Images are refused by name where the server says that its model sees none."""
    stand_in.model.kind = kind
    stand_in.model.sees = sees
    with create(BackendOptions(url=stand_in.url)) as backend:
        assert backend.capabilities.images is sees
        if sees:
            assert backend.generate(request(seeing())).samples[0].text
            return
        with pytest.raises(UnsupportedFeatureError, match="images: its model sees"):
            backend.generate(request(seeing()))


def test_a_schema_reaches_the_server(stand_in: StandIn) -> None:
    """A whole request goes through and its answer fits."""
    stand_in.model.kind = "openai"
    asked = request(chat(), json_schema='{"const": 7}')
    with create(BackendOptions(url=stand_in.url)) as backend:
        text = backend.generate(asked).samples[0].text

    assert json.loads(text) == 7


def test_what_a_router_does_not_let_through_is_not_claimed(stand_in: StandIn) -> None:
    """Without ``/tokenize`` tokens are estimated, and a chat has no scores."""
    stand_in.model.kind = "vllm"
    stand_in.model.has_tokenize = False
    with create(BackendOptions(url=stand_in.url)) as backend:
        selection = backend.select(SelectRequest(prompt=chat(), choices=("a", "b")))

        assert not backend.capabilities.token_counts
        assert backend.count_tokens("a b c d") == 2
        assert selection.chosen in ("a", "b")
