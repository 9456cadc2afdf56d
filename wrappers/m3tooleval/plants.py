"""Task family `cryptobotanists_plant_dna_sequencer`: invented plants with sequences decoded by invented tables.

Each task has its own table, known only to the tool: three letters of mRNA stand for an invented amino acid. The pairing
of letters (A with U, C with G, G with C, T with A) is as in upstream's tools.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain, product

from align_echo.base.dice import Dice
from align_echo.wrappers.m3tooleval.tools import Tool, ToolCall, Tools, Use, as_text, make_recorder, number, toolbox
from align_echo.wrappers.m3tooleval.upstream import ToolTask, draw_distinct, invent_word, join_words

DNA, RNA = "ACGT", "UGCA"
INVALID = "no valid sequence"
AMINO_ACIDS = 12


def _counts(sequence: object) -> dict[str, int]:
    return dict(sorted(Counter(as_text(sequence)).items()))


def _transcribe(sequence: object) -> str:
    return as_text(sequence).translate(str.maketrans(DNA, RNA))


def _untranscribe(sequence: object) -> str:
    return as_text(sequence).translate(str.maketrans(RNA, DNA))


def _is_valid(sequence: object) -> bool:
    return set(as_text(sequence)) <= set(DNA)


def _most(*counts: object) -> tuple[str, int | float]:
    if not counts or len(counts) % 2:
        raise ValueError("letters and counts are needed in turn: letter, count, letter, count ...")
    pairs = [(as_text(letter), number(count)) for letter, count in zip(counts[::2], counts[1::2], strict=True)]
    return max(pairs, key=lambda pair: pair[1])


def build_tools(table: Mapping[str, str]) -> Tools:
    """Build the tools with a table of codons. An unknown codon becomes a "?"."""

    def translate(sequence: object) -> str:
        text = as_text(sequence)
        return "-".join(table.get(text[start : start + 3], "?") for start in range(0, len(text), 3))

    return toolbox(
        Tool(
            "count_nucleotides",
            "count_nucleotides(dna_sequence: str) -> dict",
            "Counts each letter of a sequence.",
            _counts,
        ),
        Tool(
            "transcribe_dna_to_mrna",
            "transcribe_dna_to_mrna(dna_sequence: str) -> str",
            "Writes the mRNA of a DNA sequence.",
            _transcribe,
        ),
        Tool(
            "translate_mrna_to_amino_acid",
            "translate_mrna_to_amino_acid(mrna_sequence: str) -> str",
            "Reads mRNA in threes as amino acids, with hyphens between them.",
            translate,
        ),
        Tool(
            "find_max_nucleotide",
            "find_max_nucleotide(*args) -> (str, int)",
            "The letter with the largest count. Arguments: letter, count, letter, count and so on.",
            _most,
        ),
        Tool(
            "is_valid_dna_sequence",
            "is_valid_dna_sequence(dna_sequence: str) -> bool",
            "Whether a sequence holds the letters A, C, G and T alone.",
            _is_valid,
        ),
        Tool(
            "reverse_transcribe_mrna_to_dna",
            "reverse_transcribe_mrna_to_dna(mrna_sequence: str) -> str",
            "Writes the DNA of an mRNA sequence.",
            _untranscribe,
        ),
    )


def _sequence(dice: Dice, letters: str = DNA, length: int = 0) -> str:
    return "".join(dice.pick(letters) for _ in range(length or 15 + 3 * dice.below(4)))


def _uneven(dice: Dice, letters: str = DNA) -> str:
    """Draw a sequence with one most frequent letter."""
    while True:
        sequence = _sequence(dice, letters)
        ranked = Counter(sequence).most_common()
        if ranked[0][1] > ranked[1][1]:
            return sequence


def _most_frequent(use: Use, sequence: object) -> tuple[str, int]:
    counts = use("count_nucleotides", sequence)
    assert isinstance(counts, dict)
    pair = use("find_max_nucleotide", *chain.from_iterable(counts.items()))
    assert isinstance(pair, tuple)
    return pair


def _common_to_rna(dice: Dice, words: list[str], use: Use) -> tuple[str, object]:
    sequence = _uneven(dice)
    letter, _ = _most_frequent(use, sequence)
    return (
        f"Which nucleotide occurs most often in {sequence}? Write it three times over, transcribe that to mRNA, and "
        "answer with the mRNA.",
        use("transcribe_dna_to_mrna", letter * 3),
    )


def _validate(dice: Dice, words: list[str], use: Use) -> tuple[str, object]:
    sequence = _sequence(dice, length=12)
    if dice.chance(0.4):
        spoiled = dice.below(12)
        sequence = sequence[:spoiled] + dice.pick("BEHKX") + sequence[spoiled + 1 :]
    question = (
        f"If {sequence} is a valid DNA sequence, transcribe it and translate the mRNA to amino acids; answer "
        f"with these. If it is not, answer: {INVALID}"
    )
    if not use("is_valid_dna_sequence", sequence):
        return question, INVALID
    return question, use("translate_mrna_to_amino_acid", use("transcribe_dna_to_mrna", sequence))


def _common_in_dna(dice: Dice, words: list[str], use: Use) -> tuple[str, object]:
    sequence = _uneven(dice, RNA)
    letter, _ = _most_frequent(use, use("reverse_transcribe_mrna_to_dna", sequence))
    return (
        f"Turn the mRNA {sequence} back into DNA. Which nucleotide does the DNA hold most often? Answer with its "
        "letter alone.",
        letter,
    )


def _chain_length(dice: Dice, words: list[str], use: Use) -> tuple[str, object]:
    sequence = _sequence(dice)
    acids = use("translate_mrna_to_amino_acid", use("transcribe_dna_to_mrna", sequence))
    kinds = len(set(str(acids).split("-")))
    return f"Transcribe {sequence}, translate the mRNA, and answer how many different amino acids it holds.", kinds


def _composition(dice: Dice, words: list[str], use: Use) -> tuple[str, object]:
    sequence = _sequence(dice, RNA)
    counts = use("count_nucleotides", use("reverse_transcribe_mrna_to_dna", sequence))
    return (
        f"What DNA does the mRNA {sequence} come from, and how often does each of its nucleotides occur? Answer with "
        "a dictionary of the counts, such as {'A': 3, 'C': 1}.",
        counts,
    )


def _longest_valid(dice: Dice, words: list[str], use: Use) -> tuple[str, object]:
    sequences = [_sequence(dice, length=length) for length in (9, 12, 15)]
    sequences[2] = sequences[2][:7] + dice.pick("BEHKX") + sequences[2][8:]
    shuffled = dice.shuffled(sequences)
    valid = [sequence for sequence in shuffled if use("is_valid_dna_sequence", sequence)]
    return f"Some of the sequences {join_words(shuffled)} are no DNA. Answer with the longest that is valid.", max(
        valid, key=len
    )


def _holds(dice: Dice, words: list[str], use: Use) -> tuple[str, object]:
    sequence = _sequence(dice)
    acids = str(use("translate_mrna_to_amino_acid", use("transcribe_dna_to_mrna", sequence))).split("-")
    sought = dice.pick(acids if dice.chance(0.5) else words)
    return (
        f"Does the protein that {sequence} codes for (transcribed, then translated) hold the amino acid {sought}? "
        "Answer True or False.",
        sought in acids,
    )


def _joined(dice: Dice, words: list[str], use: Use) -> tuple[str, object]:
    full_sequence = _uneven(dice)
    cuts = (len(full_sequence) // 3, len(full_sequence) // 3 * 2)
    parts = [full_sequence[: cuts[0]], full_sequence[cuts[0] : cuts[1]], full_sequence[cuts[1] :]]
    return (
        f"Put {join_words(parts)} together in this order. Which nucleotide is the most frequent in the whole, and how "
        "often does it occur? Answer with both in a pair, such as ('A', 5).",
        _most_frequent(use, full_sequence),
    )


KINDS = (_common_to_rna, _validate, _common_in_dna, _chain_length, _composition, _longest_valid, _holds, _joined)


def make(index: int, dice: Dice, split: str) -> ToolTask:
    """Generate the task of an index; kinds alternate."""
    words = draw_distinct(AMINO_ACIDS, lambda: f"{invent_word(dice, split)}ine".capitalize())
    table = {"".join(codon): dice.pick(words) for codon in product(RNA, repeat=3)}
    tools = build_tools(table)
    calls: list[ToolCall] = []
    instruction, expected = KINDS[index % len(KINDS)](dice, words, make_recorder(tools, calls))
    return ToolTask(instruction, expected, lambda: tools, tuple(calls))
