"""Names: what is one, what is none and why, and that each has one spelling."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tenure
from tenure.sharing.store.names import BadName, checked


@pytest.mark.parametrize(
    "name", ["w", "encoder/w", "a/b/c/d", "..a", "a.b", "日本語", "with space", "w" * 512, "é" * 256]
)
def test_words_joined_by_slashes(name):
    assert checked(name) == name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "a part is empty"),
        ("/", "a part is empty"),
        ("a//b", "a part is empty"),
        ("a/", "a part is empty"),
        ("..", "'..' is not allowed"),
        ("a/./b", "'.' is not allowed"),
        ("a\0", r"the character '\\x00'"),
        ("a\tb", "the character"),
        ("a\u2028b", "the character"),
        ("a\u200bb", "the character"),
        ("w" * 513, "at most 512 bytes; .* has 513"),
        ("w" * 10_240, "has 10240"),
        ("\ud83d", "must be valid Unicode"),
        (3, "a str, not int: 3"),
        (b"w", "a str, not bytes"),
        (["w"] * 1000, "a str, not list"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(name, why):
    with pytest.raises(BadName, match=why) as error:
        checked(name)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300 or len(name) == 513
    assert isinstance(error.value, tenure.StoreError)
    assert isinstance(error.value, ValueError)


@given(st.text(max_size=40))
def test_a_name_is_its_own_spelling(text):
    try:
        name = checked(text)
    except BadName:
        return
    assert checked(name) == name == unicodedata.normalize("NFC", text)
    assert len(name.encode()) <= 512
    assert not {"", ".", ".."} & set(name.split("/"))
    assert checked(unicodedata.normalize("NFD", text)) == name
