"""`backdrop.remove` and `backdrop.Session`, which work without a daemon; started by `packages.py`, and by `tests/packages/wheel` with the wheel."""
from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import backdrop

PHOTOS = Path(os.environ["TEST_PHOTOS"])
CUP, CAT = PHOTOS / "coffee.jpg", PHOTOS / "chelsea.png"
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def session() -> Iterator[backdrop.Session]:
    with backdrop.Session(device="cpu", jobs=2) as session:
        yield session


def pid_of(session: backdrop.Session) -> int:
    process = session._running()
    return process._popen.pid


def pixels(file: bytes) -> Any:
    return np.array(PIL.Image.open(io.BytesIO(file)))


def test_what_comes_back_is_of_the_type_that_came_in(session: backdrop.Session) -> None:
    data = CAT.read_bytes()
    cutout = backdrop.remove(data, session=session, max_dim=200)
    assert isinstance(cutout, bytes) and cutout.startswith(PNG)
    with open(CAT, "rb") as file:
        for picture in (CAT, str(CAT), bytearray(data), memoryview(data), file):
            assert backdrop.remove(picture, session=session, max_dim=200) == cutout
    image = PIL.Image.open(CAT)
    of_image = backdrop.remove(image, session=session, max_dim=200)
    assert isinstance(of_image, PIL.Image.Image) and of_image.mode == "RGBA"
    of_array = backdrop.remove(np.asarray(image), session=session, max_dim=200)
    assert of_array.dtype == np.uint8 and of_array.flags.writeable
    assert np.array_equal(np.asarray(of_image), pixels(cutout)) and np.array_equal(of_array, pixels(cutout))
    for pillow_or_array in (image, np.asarray(image)):
        file_of = backdrop.remove(pillow_or_array, session=session, force_return_bytes=True, max_dim=200)
        assert np.array_equal(pixels(file_of), pixels(cutout))
    wrong: Any = 5
    with pytest.raises(TypeError, match="not int"):
        backdrop.remove(wrong, session=session)


def test_every_mode_of_an_image_is_read_and_turned_upright(session: backdrop.Session) -> None:
    photo = PIL.Image.open(CAT).convert("RGB").resize((225, 150))
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr"):
        assert backdrop.remove(photo.convert(mode), session=session).size == (225, 150), mode
    assert backdrop.remove(np.asarray(photo.convert("L")), session=session).shape == (150, 225, 4)
    turned = io.BytesIO()
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    photo.save(turned, "JPEG", exif=exif)
    assert backdrop.remove(PIL.Image.open(turned), session=session).size == (150, 225)


def test_what_rembg_takes_has_its_meaning(session: backdrop.Session) -> None:
    image = PIL.Image.open(CUP).resize((300, 200))
    cutout = np.asarray(backdrop.remove(image, session=session))
    matte = backdrop.remove(image, session=session, only_mask=True, bgcolor=(255, 0, 0, 255))
    assert matte.mode == "L" and np.array_equal(np.asarray(matte), cutout[..., 3])
    assert backdrop.remove(np.asarray(image), session=session, only_mask=True).shape == (200, 300)
    assert backdrop.remove(CUP, session=session, bgcolor=(255, 0, 0, 255), max_dim=64).startswith(PNG)
    on_red = np.asarray(backdrop.remove(image, session=session, bgcolor=(255, 0, 0, 255)))
    assert tuple(on_red[0, 0]) == (255, 0, 0, 255)
    assert np.array_equal(on_red, np.asarray(backdrop.remove(image, session=session, bg_color="red")))
    unmatted = backdrop.remove(image, session=session, alpha_matting=False)
    assert np.array_equal(np.asarray(unmatted), np.asarray(backdrop.remove(image, session=session, matting="none")))
    assert not np.array_equal(np.asarray(unmatted), cutout)
    same = backdrop.remove(
        image, session=session, alpha_matting=True, alpha_matting_foreground_threshold=240, alpha_matting_background_threshold=10,
        alpha_matting_erode_size=10, post_process_mask=True,
    )
    assert np.array_equal(np.asarray(same), cutout)
    with backdrop.new_session("u2net", providers=["CPUExecutionProvider"]) as other:
        assert np.array_equal(np.asarray(backdrop.remove(image, session=other)), cutout)


def test_a_session_has_the_endpoints_of_the_client(session: backdrop.Session, tmp_path: Path) -> None:
    shot = session.studio_shot(CUP, width=80, height=60, bg_color="white", timeout=60)
    assert (shot.width, shot.height, shot.format, shot.cost) == (80, 60, "jpg", 0) and shot.timings["segment"] > 0 and shot.model
    assert shot.save(tmp_path / "shot.png").read_bytes() == shot.data
    cutout = session.remove(CAT, box=(10, 20, 400, 280), point=[(200, 150), "50%,40%"], edge="auto", service_model="fgnet-384-fast")
    assert cutout.box is not None and cutout.edge == "soft" and cutout.model.startswith("fgnet-384-fast")
    mask = session.mask(CAT)
    both = session.replace_bg(CAT, bg_file=CUP, mask_file=mask.data, mask_mode="replace", max_dim=64)
    assert both.width == 64
    assert session.upscale(CAT.read_bytes(), scale=2, max_dim=300).width == 300
    outcomes = list(session.batch([CAT, b"no picture", CUP], concurrency=2))
    assert sorted((outcome.index, outcome.error is None) for outcome in outcomes) == [(0, True), (1, False), (2, True)]


def test_refusals_are_the_exceptions_of_the_client(session: backdrop.Session, tmp_path: Path) -> None:
    wrong: Any = {"egde": "hard"}
    with pytest.raises(backdrop.InvalidParameterError, match="did you mean `edge`") as refused:
        backdrop.remove(CAT, session=session, **wrong)
    assert (refused.value.status, refused.value.param) == (400, "egde")
    with pytest.raises(backdrop.UnsupportedMediaTypeError):
        backdrop.remove(b"no picture", session=session)
    blank = PIL.Image.new("RGB", (200, 200), "white")
    with pytest.raises(backdrop.NoSubjectDetectedError):
        backdrop.remove(blank, session=session)
    with pytest.raises(backdrop.InvalidParameterError):
        session.remove("http://example.org/photo.jpg")
    with pytest.raises(FileNotFoundError):
        backdrop.remove(tmp_path / "nowhere.jpg", session=session)
    with pytest.raises(backdrop.TimedOutError):
        session.remove(CUP, timeout=0.001)
    with backdrop.Session("nonsense") as unknown, pytest.raises(backdrop.ProcessFailedError, match="unknown model nonsense"):
        backdrop.remove(CAT, session=unknown)


def test_many_come_in_their_order_and_threads_share_a_process(session: backdrop.Session) -> None:
    photo = PIL.Image.open(CAT)
    sizes = [(90 + 10 * (number % 5), 80) for number in range(12)]
    taken = []

    def pictures() -> Iterator[PIL.Image.Image]:
        for size in sizes:
            taken.append(size)
            yield photo.resize(size)

    many = backdrop.remove_many(pictures(), session=session, concurrency=2)
    assert next(many).size == sizes[0] and len(taken) <= 4, "pictures are read ahead without a bound"
    assert [cutout.size for cutout in many] == sizes[1:]
    with pytest.raises(backdrop.UnsupportedMediaTypeError):
        list(backdrop.remove_many([CAT, b"no picture", CAT], session=session))

    before, results = pid_of(session), {}

    def cut(number: int) -> None:
        results[number] = backdrop.remove(photo.resize((100 + number, 90)), session=session).size

    threads = [threading.Thread(target=cut, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: (100 + number, 90) for number in range(8)} and pid_of(session) == before


def test_a_killed_process_is_an_exception_and_the_next_call_starts_another() -> None:
    with backdrop.Session(device="cpu") as session:
        cutout = backdrop.remove(CAT, session=session)
        first, failures = pid_of(session), []

        def cut() -> None:
            try:
                backdrop.remove(CAT, session=session)
            except backdrop.ProcessFailedError as error:
                failures.append(str(error))

        # Stopped, so that one request fills the pipe and the others wait for it.
        os.kill(first, signal.SIGSTOP)
        threads = [threading.Thread(target=cut) for _ in range(3)]
        for thread in threads:
            thread.start()
        while len(session._running()._waiting) < 3:
            time.sleep(0.01)
        os.kill(first, signal.SIGKILL)
        for thread in threads:
            thread.join(60)
        assert len(failures) == 3 and all("ended with the status -9" in failure for failure in failures)
        assert backdrop.remove(CAT, session=session) == cutout and pid_of(session) != first
        last = pid_of(session)
    assert not Path(f"/proc/{last}").exists(), "the process outlives its session"


def test_a_fork_has_a_process_of_its_own() -> None:
    with backdrop.Session(device="cpu") as session:
        cutout = backdrop.remove(CAT, session=session)
        parents = pid_of(session)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = 0 if backdrop.remove(CAT, session=session) == cutout and pid_of(session) != parents else 2
                session.close()
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert backdrop.remove(CAT, session=session) == cutout and pid_of(session) == parents


def test_the_process_ends_with_the_program_however_that_ends() -> None:
    program = (
        "import backdrop, os, sys, time\n"
        f"backdrop.remove({str(CAT)!r})\n"
        "print(backdrop._session._running()._popen.pid, flush=True)\n"
        "if sys.argv[1] == 'kill': os.kill(os.getpid(), 9)\n"
    )
    for end in ("return", "kill"):
        run = subprocess.run([sys.executable, "-c", program, end], stdout=subprocess.PIPE, text=True, timeout=120)
        assert run.returncode == (0 if end == "return" else -9)
        process = Path(f"/proc/{run.stdout.strip()}")
        for _ in range(600):
            # A zombie waits for the system's first process.
            if not process.exists() or "\nState:\tZ" in (process / "status").read_text():
                break
            time.sleep(0.1)
        else:
            raise AssertionError("the process outlives its program")


def test_a_missing_command_is_a_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sysconfig.get_path", lambda *_: str(tmp_path))
    with pytest.raises(backdrop.ProcessFailedError, match="install Backdrop's wheel"):
        backdrop.Session().remove(CAT)
    (tmp_path / "backdrop").write_text("no program")
    (tmp_path / "backdrop").chmod(0o755)
    with pytest.raises(backdrop.ProcessFailedError, match="cannot be started"):
        backdrop.Session().remove(CAT)
