"""The Python client against a daemon, and against `fault_proxy.py` before it; started by `packages.py`."""
from __future__ import annotations

import asyncio
import bz2
import contextlib
import datetime
import functools
import gzip
import hashlib
import json
import lzma
import os
import re
import threading
import time
import tracemalloc
import uuid
from collections.abc import Awaitable, Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import standardwebhooks
import yaml

import backdrop

URL, PROXY, ORIGIN = (os.environ[name] for name in ("BACKDROP_URL", "TEST_PROXY", "TEST_ORIGIN"))
PHOTOS, CLIP = Path(os.environ["TEST_PHOTOS"]), Path(os.environ["TEST_CLIP"])
CAT, ASTRONAUT = PHOTOS / "chelsea.png", PHOTOS / "astronaut.jpg"
LARGE = int(os.environ["TEST_LARGE"])
PNG = b"\x89PNG\r\n\x1a\n"


class Scenario:
    """A client whose requests a scenario of `fault_proxy.py` handles."""

    def __init__(self, name: str, **options: Any) -> None:
        self.nonce = uuid.uuid4().hex
        self.url = f"{PROXY}/{name}/{self.nonce}"
        self.client = backdrop.Client(url=self.url, **options)

    def asynchronous(self, **options: Any) -> backdrop.AsyncClient:
        return backdrop.AsyncClient(url=self.url, **options)

    @property
    def log(self) -> list[dict[str, Any]]:
        log: list[dict[str, Any]] = httpx.get(f"{PROXY}/log/{self.nonce}").json()
        return log

    def keys(self) -> set[str]:
        return {entry["headers"]["idempotency-key"] for entry in self.log}


@pytest.fixture(scope="module")
def client() -> Iterator[backdrop.Client]:
    with backdrop.Client() as client:
        yield client


@pytest.fixture(scope="module", autouse=True)
def first_cutout() -> None:
    """Before any test counts what is billed."""
    cutout_of_cat()


@functools.cache
def cutout_of_cat() -> bytes:
    with backdrop.Client() as client:
        return client.remove(CAT).data


def until(condition: Callable[[], bool]) -> None:
    """Waits for what another process does; a minute stops a test that hangs."""
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen within a minute")


def test_a_result_has_the_picture_and_what_the_headers_say(client: backdrop.Client, tmp_path: Path) -> None:
    cutout = client.remove(CAT, edge="hard", format="png", max_dim=200)
    assert cutout.data.startswith(PNG) and bytes(cutout) == cutout.data
    assert (cutout.width, cutout.format, cutout.content_type) == (200, "png", "image/png")
    assert cutout.box is not None and cutout.box.width <= 200 and cutout.box.height <= cutout.height
    assert cutout.uncertainty is not None and 0 <= cutout.uncertainty <= 1
    assert cutout.edge is None and client.remove(CAT, edge="auto", max_dim=200).edge == "soft"  # it has fur
    assert cutout.warnings == []
    # A cat is no portrait, and what is cut out is not cut out anew.
    assert len(client.headshot(CAT).warnings) == 1
    assert "keep_alpha" in client.remove(cutout.data).warnings[0]
    row = client.remove_batch([cutout.data]).rows[0]
    assert row.document.get("warnings") == client.remove(cutout.data).warnings
    assert cutout.cost > 0 and cutout.request_id and cutout.model and cutout.timings["segment"] > 0
    assert cutout.save(tmp_path / "cutout.png").read_bytes() == cutout.data
    assert "png 200×" in repr(cutout)


def test_a_picture_may_be_a_path_bytes_a_file_a_pipe_or_an_address(client: backdrop.Client, tmp_path: Path) -> None:
    with open(CAT, "rb") as file:
        assert client.remove(file).data == cutout_of_cat()
    for module in (bz2, gzip, lzma):
        (tmp_path / "compressed").write_bytes(module.compress(CAT.read_bytes()))
        with module.open(tmp_path / "compressed") as file:
            assert client.remove(file).data == cutout_of_cat()
    for picture in (str(CAT), CAT.read_bytes(), memoryview(CAT.read_bytes()), f"{ORIGIN}/chelsea.png"):
        assert client.remove(picture).data == cutout_of_cat()
    read, write = os.pipe()
    writer = threading.Thread(target=lambda: os.fdopen(write, "wb").write(CAT.read_bytes()))
    writer.start()
    with os.fdopen(read, "rb") as pipe:
        assert not pipe.seekable() and client.remove(pipe).data == cutout_of_cat()
    writer.join()


def test_fields_are_sent_as_the_contract_writes_them(client: backdrop.Client) -> None:
    text = client.mask(CAT, box="10,20,400,280", point=["100,100", "50%,40%"], not_point="5,5")
    numbers = client.mask(CAT, box=(10, 20, 400, 280), point=[(100, 100), "50%,40%"], not_point=(5, 5))
    by_address = client.mask(f"{ORIGIN}/chelsea.png", box=(10, 20, 400, 280), point=[(100, 100), "50%,40%"], not_point=(5, 5))
    # No `int`, as numpy's.
    real: Any = Fraction(5)
    other = client.mask(CAT, box=(10, 20, 400, 280), point=[(20 * real, 20 * real), "50%,40%"], not_point=(real, real))
    assert text.data == numbers.data == by_address.data == other.data
    mask = client.mask(CAT, stage="mask")
    both = [client.remove(picture, mask_file=mask.data, mask_mode="replace") for picture in (CAT, f"{ORIGIN}/chelsea.png")]
    assert both[0].data == both[1].data
    with pytest.raises(ValueError, match="bg_url"):
        client.replace_bg(CAT, bg_file=f"{ORIGIN}/coffee.jpg")


def test_every_operation_of_the_contract_is_reached(tmp_path: Path) -> None:
    scenario = Scenario("pass")
    client = scenario.client
    pictures = [
        client.remove(CAT), client.remove_url(f"{ORIGIN}/chelsea.png", despill=50), client.mask(CAT), client.replace_bg(CAT, bg_file=ASTRONAUT),
        client.replace_bg_ai(CAT, prompt="a wooden table"), client.studio_shot(CAT, aspect="4:5", shadow=False),
        client.smart_crop(CAT, padding=4), client.shadow(CAT, blur=10), client.sticker(CAT, stroke_width=8), client.headshot(ASTRONAUT),
        client.face_restore(ASTRONAUT, strength=0.5), client.upscale(CAT, scale=2, max_dim=300),
    ]
    assert all(picture.data and picture.width for picture in pictures)
    assert pictures[4].backdrop_model == "procedural" and pictures[9].face is not None
    assert len(client.remove_batch([CAT])) == len(client.remove_batch_url([f"{ORIGIN}/chelsea.png"])) == 1
    job = client.video_remove(CLIP, format="gif").wait()
    assert client.job(job.id).status == "done" and job.id in [one.id for one in client.jobs()]
    address = urlsplit(job.result_url or "")
    client.download(f"{scenario.url}{address.path}?{address.query}", tmp_path / "result.gif")
    with pytest.raises(backdrop.ConflictError):
        job.pause()
    job.delete()
    # Needs a database.
    with pytest.raises(backdrop.UnavailableError):
        backdrop.Client(url=scenario.url, retries=0).bulk("s3://shop/photos", "s3://shop/cutouts")
    assert client.estimate(endpoint="/remove", count=3)["units"] == 3
    preset = client.save_preset(name=scenario.nonce, endpoint="/remove", params={"edge": "hard"})
    assert preset["id"] in [one["id"] for one in client.presets()]
    client.delete_preset(preset["id"])
    assert client.models()["models"][0]["is_default"]
    assert client.account()["plan"] == "plus" and client.usage(datetime.date.today())["usage"] is not None
    assert client.usage(datetime.datetime.now(), datetime.datetime.now(datetime.timezone.utc))["usage"] is not None
    assert client.openapi()["openapi"].startswith("3.1") and client.openapi_yaml().startswith("openapi: 3.1") and "<html" in client.docs()

    contract = yaml.safe_load(Path(os.environ["TEST_CONTRACT"]).read_text())
    operations = {(method.upper(), path) for path, methods in contract["paths"].items() for method in methods}
    patterns = {(method, re.compile(re.sub(r"\{\w+\}", "[^/?]+", path) + r"(\?.*)?")): (method, path) for method, path in operations}
    reached = {name for entry in scenario.log for (method, pattern), name in patterns.items()
               if method == entry["method"] and pattern.fullmatch(entry["path"])}
    assert reached == operations


@pytest.mark.parametrize("scenario", ["lose", "cut"])
def test_a_lost_reply_is_asked_for_again_and_billed_once(client: backdrop.Client, scenario: str) -> None:
    used, unreliable = client.account()["used"], Scenario(scenario)
    assert unreliable.client.remove(CAT).data == cutout_of_cat()
    assert len(unreliable.log) == 2 and len(unreliable.keys()) == 1
    assert client.account()["used"] == used + 1


# A 429 that says when to come back uses none of the attempts.
@pytest.mark.parametrize(("scenario", "requests", "retries"), [("busy", 3, 0), ("drains", 2, 1), ("gateway", 2, 1)])
def test_refusals_that_pass_are_waited_for(scenario: str, requests: int, retries: int) -> None:
    unreliable = Scenario(scenario, retries=retries)
    assert unreliable.client.remove(CAT).data == cutout_of_cat()
    assert len(unreliable.log) == requests and len(unreliable.keys()) == 1


def test_retries_and_pauses_are_bounded() -> None:
    fails, later = Scenario("fails", retries=1), Scenario("later")
    with pytest.raises(backdrop.InternalError) as failure:
        fails.client.remove(CAT)
    assert failure.value.request_id == "req_planned" and len(fails.log) == 2
    with pytest.raises(backdrop.RateLimitExceededError) as refusal:
        later.client.remove(CAT)
    assert refusal.value.retry_after == 36000 and len(later.log) == 1
    stalled = Scenario("stall", timeout=0.5, retries=0)
    with pytest.raises(backdrop.TimedOutError):
        stalled.client.account()
    with pytest.raises(backdrop.ConnectionFailedError):
        backdrop.Client(url="http://127.0.0.1:9", retries=0).account()


def test_what_may_have_been_carried_out_is_repeated_only_with_an_idempotency_key(client: backdrop.Client) -> None:
    lost, drains = Scenario("lose"), Scenario("drains")
    with pytest.raises(backdrop.ConnectionFailedError):
        lost.client.save_preset(name=lost.nonce, params={})
    assert len(lost.log) == 1
    saved = drains.client.save_preset(name=drains.nonce, params={})
    assert len(drains.log) == 2
    overwritten = Scenario("lose")
    assert overwritten.client.save_preset(id=saved["id"], name=overwritten.nonce, params={})["id"] == saved["id"]
    for preset in client.presets():
        client.delete_preset(preset["id"])


def test_errors_have_the_class_of_their_code(client: backdrop.Client) -> None:
    proxied = Scenario("pass")
    with pytest.raises(backdrop.InvalidParameterError) as refusal:
        proxied.client.remove(CAT, edge="fuzzy")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    error = refusal.value
    assert (error.status, error.code, error.param) == (400, "invalid_parameter", "edge") and error.request_id and "fuzzy" in error.message
    assert len(proxied.log) == 1
    with pytest.raises(backdrop.UnauthorizedError):
        backdrop.Client(key="wrong").account()
    with pytest.raises(backdrop.FetchFailedError) as fetch:
        client.remove(f"{ORIGIN}/missing.jpg")
    assert fetch.value.reason == "status"
    with pytest.raises(backdrop.NotFoundError):
        client.job("job_missing")
    with pytest.raises(backdrop.UnsupportedMediaTypeError):
        client.remove(b"no picture")
    gateway = Scenario("gateway", retries=0)
    with pytest.raises(backdrop.ApiError, match="http_502"):
        gateway.client.remove(CAT)


def test_a_key_of_ones_own_spans_calls(client: backdrop.Client) -> None:
    used, key = client.account()["used"], uuid.uuid4().hex
    assert client.remove(CAT, idempotency_key=key).data == client.remove(CAT, idempotency_key=key).data
    assert client.account()["used"] == used + 1
    with pytest.raises(backdrop.IdempotencyConflictError):
        client.remove(ASTRONAUT, idempotency_key=key)


def test_the_model_is_selected_by_its_header(client: backdrop.Client) -> None:
    name = client.account()["model"].split("/")[0]
    assert client.remove(CAT, service_model=f"{name}-quality").model.startswith(f"{name}-quality/")


def test_rows_of_a_batch_come_without_base64(tmp_path: Path) -> None:
    scenario = Scenario("pass")
    rows = list(scenario.client.remove_batch([CAT, b"no picture", ASTRONAUT], format="webp"))
    assert [row.index for row in rows] == [0, 1, 2] and rows[0].data is not None and rows[0].data.startswith(b"RIFF")
    assert isinstance(rows[1].error, backdrop.UnsupportedMediaTypeError) and rows[1].data is None and rows[2].box is not None
    assert rows[2].save(tmp_path / "two.webp").stat().st_size == rows[2].document.get("size_bytes")
    with pytest.raises(backdrop.UnsupportedMediaTypeError):
        rows[1].save(tmp_path / "one.webp")
    assert "zip" in scenario.log[0]["headers"]["accept"]
    fetched = scenario.client.remove_batch_url([f"{ORIGIN}/missing.jpg", f"{ORIGIN}/none.jpg"])
    assert [type(row.error) for row in fetched] == [backdrop.FetchFailedError] * 2


def test_a_batch_of_any_size_goes_on_after_failures(client: backdrop.Client, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pictures: list[backdrop.Picture] = [CAT, b"no picture", tmp_path / "missing.jpg", ASTRONAUT, CAT]
    outcomes = sorted(client.batch(pictures, lambda photo: client.sticker(photo, max_dim=128), concurrency=2, progress=True),
                      key=lambda outcome: outcome.index)
    assert [outcome.picture for outcome in outcomes] == pictures
    assert [type(outcome.error) for outcome in outcomes] == [type(None), backdrop.UnsupportedMediaTypeError, FileNotFoundError, type(None), type(None)]
    assert outcomes[0].image is not None and outcomes[4].image is not None and outcomes[0].image.data == outcomes[4].image.data
    assert "5/5" in capfd.readouterr().err
    scenario = Scenario("pass")
    with contextlib.closing(scenario.client.batch([CAT] * 50, concurrency=2)) as few:
        next(few)
    assert len(scenario.log) <= 4, "leaving the loop sends no further pictures"


def test_a_clip_is_a_job_that_is_waited_for(client: backdrop.Client, tmp_path: Path) -> None:
    seen: list[int] = []
    job = client.video_remove(CLIP, format="webp", webhook_url=f"{ORIGIN}/hook").wait(timeout=300, on_progress=seen.append)
    assert job.status == "done" and seen[-1] == 100 and job.output_seconds and job.error is None
    assert job.save(tmp_path / "clip.webp").read_bytes()[:4] == b"RIFF" and os.listdir(tmp_path) == ["clip.webp"]

    def webhook() -> dict[str, Any] | None:
        received: list[dict[str, Any]] = httpx.get(f"{PROXY}/webhooks").json()
        return next((one for one in received if job.id in one["body"]), None)

    until(lambda: webhook() is not None)
    hook = webhook() or {}
    secret = client.account().get("webhook_secret", "")
    assert backdrop.verify_webhook(hook["body"], hook["headers"], secret)["job_id"] == job.id
    with pytest.raises(backdrop.WebhookError):
        backdrop.verify_webhook(hook["body"] + " ", hook["headers"], secret)
    with pytest.raises(backdrop.WebhookError):
        backdrop.verify_webhook(hook["body"], hook["headers"], secret, now=hook["received"] + 3600)
    job.delete()
    with pytest.raises(backdrop.NotFoundError):
        job.refresh()


def test_a_job_can_be_cancelled(client: backdrop.Client) -> None:
    jobs = [client.video_remove(CLIP, smoothing=smoothing) for smoothing in range(4)]
    jobs[-1].delete()
    # Where it was over already, it is deleted.
    with pytest.raises((backdrop.JobFailedError, backdrop.NotFoundError)) as end:
        jobs[-1].wait(timeout=300)
    assert getattr(end.value, "code") in ("cancelled", "not_found")
    never = Scenario("pass").client.job(jobs[0].id)
    never.document["status"] = "queued"
    for job in jobs[:-1]:
        job.wait(timeout=300).delete()


def sent(scenario: Scenario, method: str) -> list[Any]:
    """The bodies of the requests with `method`."""
    return [entry["json"] for entry in scenario.log if entry["method"] == method]


def test_a_bulk_run_is_a_job_that_is_paused_resumed_and_waited_for(tmp_path: Path) -> None:
    scenario = Scenario("bulk")
    seen: list[int] = []
    job = scenario.client.bulk(
        "s3://shop/photos", "s3://shop/cutouts", endpoint="/studio-shot", params={"padding": "10%"}, include=["*.jpg"], limit=10,
        report=None, idempotency_key="a key", service_model="a model",
    )
    assert job.bulk is not None and (job.bulk["from"], job.bulk["to"]) == ("s3://shop/photos", "s3://shop/cutouts")
    assert job.format is None
    assert [run.get("state") for run in (job.pause().bulk, job.resume().bulk) if run is not None] == ["paused", "running"]
    assert job.wait(timeout=60, on_progress=seen.append).status == "done" and seen == [50, 100]
    # Objects that failed are in the report, and no error of the run.
    assert job.error is None and job.bulk["failed"] == 1 and job.bulk.get("summary") == {"done": 9, "failed": 1}
    with pytest.raises(backdrop.BackdropError, match="s3://shop/cutouts"):
        job.save(tmp_path / "results")
    assert os.listdir(tmp_path) == []
    # Each first reply is lost.
    body = {"from": "s3://shop/photos", "to": "s3://shop/cutouts", "endpoint": "/studio-shot", "params": {"padding": "10%"},
            "include": ["*.jpg"], "limit": 10}
    assert sent(scenario, "POST") == [body] * 2
    posts = [entry["headers"] for entry in scenario.log if entry["method"] == "POST"]
    assert [(headers["idempotency-key"], headers["x-service-model"]) for headers in posts] == [("a key", "a model")] * 2
    assert sent(scenario, "PATCH") == [{"state": "paused"}, {"state": "paused"}, {"state": "running"}]


def test_a_cancelled_bulk_run_raises_its_error() -> None:
    scenario = Scenario("bulk")
    job = scenario.client.bulk("s3://shop/photos", "s3://shop/cutouts")
    job.delete()
    with pytest.raises(backdrop.JobFailedError) as failure:
        job.wait(timeout=60)
    assert failure.value.code == "cancelled" and job.error is not None
    keys = [entry["headers"]["idempotency-key"] for entry in scenario.log if entry["method"] == "POST"]
    assert len(keys) == 2 and len(set(keys)) == 1


def test_webhooks_are_those_of_the_standard() -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body, now = json.dumps({"job_id": "job_1"}), datetime.datetime.now(datetime.timezone.utc)
    signature = standardwebhooks.Webhook(secret).sign("msg_1", now, body)
    headers = {"Webhook-Id": "msg_1", "Webhook-Timestamp": str(int(now.timestamp())), "Webhook-Signature": f"v1,bm9uZQ== {signature}"}
    assert backdrop.verify_webhook(body, headers, secret)["job_id"] == "job_1"
    for name, value in (("Webhook-Id", "msg_2"), ("Webhook-Signature", "v1a," + signature[3:]), ("Webhook-Timestamp", "soon")):
        with pytest.raises(backdrop.WebhookError):
            backdrop.verify_webhook(body, {**headers, name: value}, secret)
    with pytest.raises(backdrop.WebhookError):
        backdrop.verify_webhook(body, {}, secret)
    for wrong in ("whsec_no_base64", "whsec_", ""):
        with pytest.raises(ValueError, match="whsec_"):
            backdrop.verify_webhook(body, headers, wrong)


def large_file(path: Path) -> str:
    """A file of LARGE bytes, and its digest."""
    digest, piece = hashlib.sha256(), bytes(range(256)) * 4096
    with open(path, "wb") as file:
        for start in range(0, LARGE, len(piece)):
            part = piece[:LARGE - start]
            file.write(part)
            digest.update(part)
    return digest.hexdigest()


def test_large_bodies_are_streamed_both_ways_and_downloads_go_on(tmp_path: Path) -> None:
    digest = large_file(tmp_path / "clip.bin")
    sink, large, changed = Scenario("sink"), Scenario("large"), Scenario("changed")
    tracemalloc.start()
    sink.client.video_remove(tmp_path / "clip.bin", format="webm")
    large.client.download(f"{large.url}/results/one", tmp_path / "result")
    changed.client.download(f"{changed.url}/results/one", tmp_path / "changed")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < LARGE // 6, f"{peak} bytes at once"
    (upload,) = sink.log
    assert LARGE < upload["length"] < LARGE + 4096 and "content-length" in upload["headers"], "neither base64 nor chunks"
    for name in ("result", "changed"):
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == digest
    first, second = large.log
    start = re.fullmatch(r"bytes=(\d+)-", second["headers"]["range"])
    assert "range" not in first["headers"] and start is not None and LARGE // 4 < int(start[1]) <= LARGE // 2
    assert "authorization" not in first["headers"], "results need no key, and may lie elsewhere"
    assert len(changed.log) == 2


def test_the_asynchronous_client_does_the_same(tmp_path: Path) -> None:
    async def run() -> None:
        async with backdrop.AsyncClient() as client:
            used = (await client.account())["used"]
            lost, paced = Scenario("lose"), Scenario("busy")
            async with lost.asynchronous() as first, paced.asynchronous() as second:
                pictures = await asyncio.gather(first.remove(CAT), second.remove(CAT))
            assert [picture.data for picture in pictures] == [cutout_of_cat()] * 2
            assert len(lost.log) == 2 and len(lost.keys()) == 1 and len(paced.log) == 3
            assert (await client.account())["used"] == used + 2
            outcomes = [outcome async for outcome in client.batch([CAT, b"no picture", ASTRONAUT], concurrency=2)]
            assert sorted(outcome.index for outcome in outcomes if outcome.error is None) == [0, 2]
            (row,) = await client.remove_batch([CAT])
            assert row.data is not None and row.data.startswith(PNG)
            job = await (await client.video_remove(CLIP, format="gif")).wait(timeout=300)
            await job.save(tmp_path / "clip.gif")
            assert (tmp_path / "clip.gif").read_bytes()[:3] == b"GIF" and job.id in [one.id for one in await client.jobs()]
            await job.delete()
            with pytest.raises(backdrop.NotFoundError):
                await job.refresh()
            with pytest.raises(backdrop.UnsupportedMediaTypeError):
                await client.remove(b"no picture")
            large = Scenario("large")
            async with large.asynchronous() as downloads:
                await downloads.download(f"{large.url}/results/one", tmp_path / "result")
            assert (tmp_path / "result").stat().st_size == LARGE and len(large.log) == 2
            runs = Scenario("bulk")
            async with runs.asynchronous() as bulk:
                run = await bulk.bulk("s3://shop/photos", "s3://shop/cutouts", limit=10)
                await (await (await run.pause()).resume()).wait(timeout=60)
                assert run.status == "done" and run.bulk is not None and run.bulk["done"] == 9
                with pytest.raises(backdrop.BackdropError, match="s3://shop/cutouts"):
                    await run.save(tmp_path / "results")
            assert sent(runs, "POST") == [{"from": "s3://shop/photos", "to": "s3://shop/cutouts", "limit": 10}] * 2
            assert sent(runs, "PATCH") == [{"state": "paused"}, {"state": "paused"}, {"state": "running"}]
            assert len(await client.presets()) == 0 and (await client.estimate(endpoint="/upscale", scale=4))["units"] == 1

    asyncio.run(run())


def test_cancelling_closes_the_connection_and_repeats_nothing() -> None:
    async def run(scenario: Scenario) -> None:
        async with scenario.asynchronous() as client:
            task = asyncio.create_task(client.remove(CAT))
            await asyncio.to_thread(until, lambda: len(scenario.log) == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    async def leave(scenario: Scenario) -> None:
        async with scenario.asynchronous() as stalled, backdrop.AsyncClient() as client:

            def operation(picture: backdrop.Picture) -> Awaitable[backdrop.ImageResult]:
                return (stalled if picture == ASTRONAUT else client).remove(picture)

            async with contextlib.aclosing(client.batch([CAT, ASTRONAUT], operation)) as outcomes:
                async for outcome in outcomes:
                    assert outcome.picture == CAT
                    await asyncio.to_thread(until, lambda: len(scenario.log) == 1)
                    break
            await asyncio.to_thread(until, lambda: bool(scenario.log[0]["disconnected"]))

    for body in (run, leave):
        scenario = Scenario("stall")
        asyncio.run(body(scenario))
        until(lambda: bool(scenario.log[0]["disconnected"]))
        assert len(scenario.log) == 1


def test_both_clients_have_the_same_methods_and_hide_the_key() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")} - {"close", "aclose"}

    assert public(backdrop.Client) == public(backdrop.AsyncClient) and public(backdrop.Job) == public(backdrop.AsyncJob)
    key = os.environ["BACKDROP_KEY"]
    assert key not in repr(backdrop.Client()) and key not in repr(backdrop.AsyncClient())


def test_a_key_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BACKDROP_KEY")
    with pytest.raises(ValueError, match="BACKDROP_KEY"):
        backdrop.Client()
