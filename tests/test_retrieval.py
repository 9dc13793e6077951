"""Retrievers: of a document and of a corpus, one shape, one way of reading words."""

from __future__ import annotations

import asyncio
import json
import os
import random
import stat
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pearl.lang.errors import InputError
from pearl.lang.source import Source
from pearl.retrieval.corpus import Corpus
from pearl.retrieval.index import build_index, check_index, open_index
from pearl.retrieval.retriever import DocumentRetriever, Passage, Retriever, in_order
from pearl.retrieval.terms import terms
from tests.forks import Fork
from tests.shell import call, command, on_terminal, one_line, write_rows

PLACES = (
    ("a1", "Orkney", "The islands lie north of Scotland. Fishing boats leave before dawn."),
    ("a2", "Lighthouses", "A keeper tends the lamp. The keeper's brother fishes off Orkney."),
    ("a3", "Sjöström", "Victor Sjöström directed films in Sweden, and acted in them."),
    ("a4", "World Health Organization", "The WHO was founded in 1948 and employs 7,000 people."),
    ("a5", "J. R. R. Tolkien", "Tolkien taught at Oxford; O’Brien did not."),
    ("a6", "", "It was the best of times, it was the worst of times."),
)


def write(path: str | Path, rows: Iterable[tuple[str, str, str]]) -> str:
    told = ({"id": one, "title": title, "text": text} for one, title, text in rows)
    return write_rows(path, *told)


def of_corpus(rows: Iterable[tuple[str, str, str]], folder: Path = Path()) -> Retriever:
    index = str(folder / "places.index")
    build_index(write(folder / "places.jsonl", rows), index)
    return open_index(index)


def of_document(rows: Iterable[tuple[str, str, str]]) -> Retriever:
    parts = [f"# {title}\n\n{text}" if title else text for _, title, text in rows]
    return DocumentRetriever(Source("places.md", "\n\n".join(parts)))


@pytest.fixture(scope="module", params=["corpus", "document"])
def places(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Retriever:
    """The same places, in an index and in a document."""
    if request.param == "document":
        return of_document(PLACES)
    return of_corpus(PLACES, tmp_path_factory.mktemp("places"))


@pytest.fixture
def corpus() -> str:
    return write("places.jsonl", PLACES)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("directed films", "DIRECTING a film"),
        ("O'Brien's", "O’Brien"),
        ("Sjöström Łódź Ærø", "sjostrom lodz aero"),
        ("Sjo\u0308stro\u0308m", "Sjöström"),
        ("J. R. R. Tolkien", "JRR Tolkien"),
        ("J.R.R. Tolkien", "jrr tolkien"),
        ("the U.S. Navy", "U.S Navy"),
        ("1,040 men", "1040 men"),
        ("don't you'll we've it's", ""),
        ("東京都", "東京 京都"),
        ("Jean-Luc", "jean luc"),
    ],
)
def test_what_people_write_in_several_ways_is_one(one: str, other: str):
    assert terms(one) == terms(other)


@pytest.mark.parametrize(
    ("written", "asked"),
    [("O'Brien", "OBrien"), ("d’un acompte", "l'acompte"), ("dell’anno", "ANNO"),
     ("all'estero", "estero"), ("L'ACCONTO", "acconto"), ("Qur'an", "quran")],
)  # fmt: skip
def test_a_word_is_found_whatever_is_elided_before_it(written: str, asked: str):
    for text, query in ((written, asked), (asked, written)):
        assert of_document([("a", "", text), ("b", "", "Else")]).search(query, 2), query
    assert terms("they'll John’ve you're") == terms("Johnve")


def test_names_that_look_like_stop_words_are_kept():
    assert terms("founded by the WHO") != terms("founded by who") == terms("founded")
    assert terms("Malcolm X") == ["malcolm", "x"]
    assert terms("THE END OF THE WHO") == terms("end"), "all in capitals, nothing stands out"
    assert terms("Paris AND London OR NOT Rome") == terms("Paris London Rome")


def test_what_is_asked_for_is_found(places: Retriever):
    for query, title in (
        ("Who directed Swedish films?", "Sjöström"),
        ("sjostrom", "Sjöström"),
        ("When was the WHO founded?", "World Health Organization"),
        ("JRR Tolkien", "J. R. R. Tolkien"),
        ("obrien", "J. R. R. Tolkien"),
        ("keepers", "Lighthouses"),
    ):
        assert places.search(query, 1)[0].title == title, query


def test_a_title_counts_more_than_a_text(places: Retriever):
    found = places.search("Orkney", 5)
    assert [one.title for one in found] == ["Orkney", "Lighthouses"]
    assert found[0].score > found[1].score > 0
    assert found[0].text == PLACES[0][2]


@pytest.mark.parametrize("query", ["", "  \n", "the of and", "who is it?", "“…” *", "zzzz"])
def test_a_query_without_a_word_that_counts_finds_nothing(places: Retriever, query: str):
    assert places.search(query, 5) == []


@pytest.mark.parametrize(
    "query",
    [
        'title:"Orkney" OR *',
        "+Orkney -Orkney NOT Orkney",
        "Orkney^1000 ~3 /.*/ [a TO z] {",
        'passage:* AND (Orkney"',
        "Orkney\x00\ud800 \\",
        "Orkney " * 20_000,
    ],
)
def test_nothing_in_a_query_is_syntax(places: Retriever, query: str):
    plain = [one.id for one in places.search("Orkney", 5)]
    assert [one.id for one in places.search(query, 5)] == plain
    assert len(plain) == 2


@pytest.mark.parametrize(("k", "count"), [(-1, 0), (0, 0), (1, 1), (2, 2), (10**12, 2)])
def test_at_most_so_many_are_found(places: Retriever, k: int, count: int):
    assert len(places.search("Orkney", k)) == count


@pytest.mark.parametrize("made", [of_corpus, of_document])
def test_equal_passages_stand_by_their_ids(made: Callable[..., Retriever]):
    rows = [(str(at), "", "The same words stand here.") for at in range(1, 401)]
    random.Random(7).shuffle(rows)
    rows.insert(200, ("0", "", "Other ones."))
    found = made(rows).search("same words here", 12)
    numbers = [int(one.id) for one in found]
    assert numbers == sorted(numbers)
    assert len({one.score for one in found}) == 1
    if made is of_corpus:
        assert numbers == list(range(1, 13)), "numbers in ids count as numbers"


def test_the_order_of_the_rows_changes_no_answer():
    words = "keeper lamp boat island north dawn brother film oxford people".split()
    chance = random.Random(3)
    rows = [
        (f"p{at}", " ".join(chance.choices(words, k=2)), " ".join(chance.choices(words, k=9)))
        for at in range(500)
    ]
    build_index(write("one.jsonl", rows), "one.index")
    chance.shuffle(rows)
    build_index(write("two.jsonl", rows), "two.index")
    one, two = open_index("one.index"), open_index("two.index")
    for _ in range(30):
        query = " ".join(chance.choices(words, k=chance.randint(1, 5)))
        assert one.search(query, 20) == two.search(query, 20)


def test_sums_in_another_order_are_equal():
    passages = [Passage("b", "", "", 3.0000001), Passage("a", "", "", 3.0), Passage("c", "", "", 9)]
    assert [one.id for one in in_order(passages)] == ["c", "a", "b"]


@given(text=st.text(max_size=400), query=st.text(max_size=40))
def test_any_document_can_be_asked_anything(text: str, query: str):
    retriever = DocumentRetriever(Source("any", text))
    for one in retriever.search(query, 3):
        assert one.text in text
    if "#" not in text:
        kept = "".join(text[one.span.start : one.span.end] for one in retriever.paragraphs)
        assert "".join(kept.split()) == "".join(text.split())


def test_long_paragraphs_are_cut_where_a_reader_would_pause():
    sentence = "The keeper lit the lamp at dusk, and put it out at dawn. "
    text = f"# Book\n## One\n{sentence * 100}\n\n# Other\nEnd."
    found = DocumentRetriever(Source("book", text)).paragraphs
    assert [one.title for one in found] == ["Book / One"] * (len(found) - 1) + ["Other"]
    pieces = [text[one.span.start : one.span.end] for one in found]
    assert all(len(piece) <= 2000 and piece.endswith(".") for piece in pieces)
    assert " ".join(pieces[:-1]) == (sentence * 100).strip()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "bad.jsonl:2 is not JSON"),
        ("[1]", "bad.jsonl:2 is no object"),
        ('{"text": "x"}', "bad.jsonl:2 has no id"),
        ('{"id": " ", "text": "x"}', "bad.jsonl:2 has no id"),
        ('{"id": "a\\u0007", "text": "x"}', "bad.jsonl:2: its id holds characters that cannot be"),
        (f'{{"id": {"1" * 5000}, "text": "x"}}', "bad.jsonl:2 has a number of too many digits"),
        ("[" * 5000 + "]" * 5000, "bad.jsonl:2 is nested too deep"),
        ('{"id": "x", "text": " "}', "bad.jsonl:2 has no text"),
        ('{"id": "x", "title": 3, "text": "x"}', "bad.jsonl:2: title is to be a text"),
        ('{"id": "a1", "text": "x"}', "bad.jsonl:2 has the id of line 1"),
        (json.dumps({"id": "i" * 600, "text": "x"}), "bad.jsonl:2 has an id of 600 characters"),
        (b'{"id": "x", "text": "\xe9"}', "bad.jsonl:2 is not UTF-8"),
        (b'{"id": "x", "text": "' + b"x" * (1 << 24) + b'"}', "bad.jsonl:2 is longer than 16 MB"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "bytes",
)
def test_a_line_that_cannot_be_used_is_named(line: str | bytes, said: str):
    data = line if isinstance(line, bytes) else line.encode()
    good = b'{"id": "a1", "text": "one"}\n'
    Path("bad.jsonl").write_bytes(good + data + b"\n" + good.replace(b"a1", b"a3") + b"{\n")
    with pytest.raises(InputError, match=said) as caught:
        build_index("bad.jsonl", "bad.index")
    assert "bad.jsonl:4" in str(caught.value)
    assert not Path("bad.index").exists()


def test_a_corpus_is_given_back_to_the_letter():
    texts = "Grüße aus 東京", "half \ud83d", "tab\tand\nline\u2028end", "\u200bnames"
    rows = [(f"r{at}", "", f"Orkney {text}") for at, text in enumerate(texts)]
    path = write("odd.jsonl", rows)
    Path(path).write_bytes(b"\xef\xbb\xbf" + Path(path).read_bytes() + b"\n\n")
    build_index(path, "odd.index")
    found = {one.id: one.text for one in open_index("odd.index").search("orkney", 9)}
    assert found == {one: text for one, _, text in rows}
    places = [(row.line, row.id) for row in Corpus(path).rows()]
    assert places == [(at, f"r{at - 1}") for at in range(1, 5)]


def test_numbers_may_be_ids_and_titles_may_be_missing():
    Path("n.jsonl").write_text('{"id": 7, "text": "Orkney"}\n{"id": 8, "title": null, "text": "x"}')
    assert build_index("n.jsonl", "n.index").passages == 2
    assert open_index("n.index").search("orkney", 1)[0].id == "7"


def test_a_new_index_takes_the_place_of_the_old_one_under_its_readers(corpus: str):
    build_index(corpus, "places.index")
    reader, late = open_index("places.index"), open_index("places.index")
    assert reader.search("Orkney", 1)[0].id == "a1"
    build_index(write("other.jsonl", [("b1", "", "Orkney ponies")]), "places.index")
    assert reader.search("Orkney", 1)[0].id == "a1", "it has the older one open"
    assert late.search("Orkney", 1)[0].id == "b1", "it had opened none yet"
    assert len(list(Path("places.index").glob("part-*"))) == 1


def test_a_build_that_fails_leaves_the_old_index(corpus: str):
    build_index(corpus, "places.index")
    Path(corpus).write_text('{"id": "c1", "text": "x"}\nnot JSON\n')
    with pytest.raises(InputError, match=r"places\.jsonl:2 is not JSON"):
        build_index(corpus, "places.index")
    assert open_index("places.index").search("Orkney", 1)[0].id == "a1"
    assert len(list(Path("places.index").glob("part-*"))) == 1


def test_a_build_that_is_killed_leaves_the_old_index(corpus: str):
    build_index(corpus, "places.index")
    os.mkfifo("endless.jsonl")
    building = Fork(command("index", "endless.jsonl", "-o", "places.index"))
    try:
        with Path("endless.jsonl").open("w") as rows:
            for at in range(2000):
                rows.write(json.dumps({"id": at, "text": "Orkney"}) + "\n")
            rows.flush()
            until = time.monotonic() + 60
            while len(list(Path("places.index").glob("part-*/ids.db"))) < 1:
                assert time.monotonic() < until
                time.sleep(0.01)
            other = build_index(write("other.jsonl", PLACES[:2]), "places.index")
            assert len(list(Path("places.index").glob("part-*"))) == 2, "that build lives"
            # While the pipe is open: closed, it would be the corpus' end.
            building.kill()
            building.wait()
    finally:
        building.kill()
    assert check_index("places.index") == other
    assert open_index("places.index").search("Orkney", 9)[0].id == "a1"
    build_index(corpus, "places.index")
    assert len(list(Path("places.index").glob("part-*"))) == 1, "what it left is gone"


def _largest(index: str) -> Path:
    return max(Path(index).glob("part-*/*.store"), key=lambda file: file.stat().st_size)


def _cut(index: str) -> None:
    file = _largest(index)
    file.write_bytes(file.read_bytes()[:-1])


def _note(**changes: object) -> Callable[[str], None]:
    def change(index: str) -> None:
        file = Path(index, "index.json")
        note = json.loads(file.read_text()) | changes
        file.write_text(json.dumps(note))

    return change


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda index: _largest(index).unlink(), "is damaged (.* is missing)"),
        (_cut, "is damaged .* bytes and not"),
        (lambda index: Path(index, "index.json").write_text("{"), "is damaged .* is not JSON"),
        (lambda index: Path(index, "index.json").unlink(), "is no index: build one with"),
        (lambda index: Path(index, "index.json").write_text("[]"), "is no index of Pearl's"),
        (_note(pearl_index=99), "is an index of version 99, and this Pearl reads version 1"),
        (_note(part="../elsewhere"), "is damaged .* lacks what it should say"),
        (_note(files={"../../x": [1, ""]}), "is damaged .* lacks what it should say"),
        (_note(passages=None), "is damaged .* lacks what it should say"),
    ],
)
def test_what_is_wrong_with_an_index_is_said_when_it_is_opened(
    corpus: str, harm: Callable[[str], None], said: str
):
    build_index(corpus, "places.index")
    harm("places.index")
    with pytest.raises(InputError, match=said):
        open_index("places.index")


def test_a_byte_that_changed_is_found_by_looking_at_all_of_them(corpus: str):
    info = build_index(corpus, "places.index")
    assert check_index("places.index") == info
    file = _largest("places.index")
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 1
    file.write_bytes(data)
    with pytest.raises(InputError, match=r"is damaged .* has changed since it was written"):
        check_index("places.index")


def test_an_index_of_another_engine_says_so(corpus: str):
    build_index(corpus, "places.index")
    for file in Path("places.index").glob("part-*/*.term"):
        mark = b'"index_format_version":'
        before, _, after = file.read_bytes().partition(mark)
        file.write_bytes(before + mark + b"9" + after[1:])
    _note(engine="99.0")("places.index")
    with pytest.raises(InputError, match=r"was built with tantivy 99\.0, which the tantivy"):
        open_index("places.index").search("Orkney", 1)


def test_an_index_is_for_whoever_may_read_its_folder(corpus: str):
    build_index(corpus, "places.index")
    files = [file for file in Path("places.index").rglob("*") if file.stat().st_size]
    modes = {stat.S_IMODE(file.stat().st_mode) for file in files if file.is_file()}
    assert len(files) > 3
    assert len(modes) == 1


def test_a_folder_with_other_things_in_it_is_left_alone(corpus: str):
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("years of work")
    Path("theirs").mkdir()
    Path("theirs/index.json").write_text('{"pages": 3}')
    for place, said in (
        ("mine", "mine is a folder with other things in it"),
        ("theirs", "theirs is a folder with other things in it"),
        (corpus, "is a file"),
        ("no/where.index", "does not exist"),
    ):
        with pytest.raises(InputError, match=said):
            build_index(corpus, place)
    assert Path("mine/thesis.txt").read_text() == "years of work"


def test_many_threads_and_a_loop_search_one_index(corpus: str):
    build_index(corpus, "places.index")
    retriever = open_index("places.index")
    queries = [f"{text} {at}" for at in range(40) for _, _, text in PLACES]
    alone = [retriever.search(query, 3) for query in queries]
    shared = open_index("places.index")
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda query: shared.search(query, 3), queries)) == alone

    async def ask() -> list[list[Passage]]:
        asked = (asyncio.to_thread(shared.search, query, 3) for query in queries)
        return await asyncio.gather(*asked)

    assert asyncio.run(ask()) == alone


def test_without_the_engine_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, corpus: str):
    monkeypatch.setitem(sys.modules, "tantivy", None)
    with pytest.raises(InputError, match=r"pip install 'pearl\[corpus\]'"):
        build_index(corpus, "places.index")
    assert not Path("places.index").exists()


def test_the_command_builds_once_checks_and_searches(corpus: str):
    built = call("index", corpus, "-o", "places.index", "--json").json
    assert (built["passages"], built["fresh"]) == (6, True)
    assert built["corpus"]["bytes"] == Path(corpus).stat().st_size
    before = Path("places.index/index.json").read_bytes()
    again = call("index", corpus, "-o", "places.index")
    assert again.out.endswith("it is there already.\n")
    assert Path("places.index/index.json").read_bytes() == before
    assert "every byte is as it was written" in call("index", "places.index").out
    found = call("index", "places.index", "--search", 'title:"Orkney" OR *', "-k", "1", "--json")
    assert [one["id"] for one in found.json] == ["a1"]
    shown = call("index", "places.index", "--search", "Orkney").out.splitlines()
    assert shown[:2] == ["a1 Orkney", f"    {PLACES[0][2]}"]


def test_the_command_says_what_is_wrong_in_one_line(corpus: str):
    build_index(corpus, "places.index")
    for code, said, args in (
        (1, "No passage matches of the", ["places.index", "--search", "of the"]),
        (2, "The search is empty: write its words", ["places.index", "--search", " "]),
        (2, "is no index: build one of a corpus with -o", [corpus]),
        (2, "exclude each other", [corpus, "-o", "x", "--search", "y"]),
        (2, "none.jsonl does not exist", ["none.jsonl", "-o", "x"]),
        (2, "is a directory", [".", "-o", "x"]),
    ):
        result = call("index", *args)
        assert said in one_line(result, code)
    empty = call("index", "places.index", "--search", "of the", "--json")
    assert (empty.code, empty.json) == (1, [])


def test_a_person_sees_how_far_a_build_is(corpus: str):
    code, shown = on_terminal("index", corpus, "-o", "places.index")
    assert code == 0
    assert "writing the index" in shown
    assert "6 passages of places.jsonl" in shown


def test_what_a_corpus_says_cannot_steer_a_terminal():
    rows = [("r1", "bad \x1b[31mtitle", "Orkney \x1b]0;owned\x07 text")]
    build_index(write("bad.jsonl", rows), "bad.index")
    assert "\x1b" not in call("index", "bad.index", "--search", "orkney").out


def test_supporting_paragraphs_of_real_questions_are_found(shared: Path):
    rows: dict[tuple[str, str], str] = {}
    asked = []
    for line in (shared / "multihop" / "hotpotqa_dev.jsonl").open(encoding="utf-8"):
        row = json.loads(line)
        titles = {title for title, _ in row["supporting_facts"]}
        wanted = set()
        for title, sentences in row["context"]:
            one = rows.setdefault((title, "".join(sentences)), f"h{len(rows)}")
            wanted |= {one} if title in titles else set()
        asked.append((row["question"], wanted))
    build_index(write("h.jsonl", ((one, *key) for key, one in rows.items())), "h.index")
    retriever = open_index("h.index")
    shares = [
        len(wanted & {one.id for one in retriever.search(question, 10)}) / len(wanted)
        for question, wanted in asked
    ]
    assert len(shares) == 100
    assert sum(shares) / len(shares) >= 0.9
