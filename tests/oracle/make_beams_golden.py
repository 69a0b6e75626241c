#!/usr/bin/env python3
"""Writes tests/data/golden-beams.json: the texts that transformers' beam search finds with the weights of
models/wisp-stories.gguf, and their scores.

    .tools/bin/python-torch tests/oracle/make_beams_golden.py
"""

import json
from pathlib import Path

import torch
from make_stories_golden import MODEL, make_model, make_tokenizer, read_model

OUT = Path(__file__).resolve().parents[1] / "data" / "golden-beams.json"
CASES = [("Once upon a time", 4, 30, 1.0), ("Once upon a time", 2, 12, 1.0), ("The dog", 8, 25, 0.0),
         ("Tom was", 3, 60, 2.0), ("Lily and Max were happy. The end", 5, 80, 1.0), ("They played all day.", 4, 90, -1.0),
         ("One", 16, 20, 0.5)]
# A story of which so many characters are left out ends within these tokens.
ENDINGS = [(30, 4, 40, 1.0), (8, 3, 60, 0.0), (50, 6, 50, 2.0), (1, 4, 30, -1.0)]


@torch.inference_mode()
def main():
    metadata, tensors = read_model(MODEL)
    tokenizer, model = make_tokenizer(metadata), make_model(metadata, tensors)
    end = metadata["tokenizer.ggml.eos_token_id"]
    cases = []
    story = json.loads((OUT.parent / "golden-stories.json").read_text())
    story = story["prompt"] + story["greedy_text"]
    for prompt, beams, most, penalty in CASES + [(story[:-left], *case) for left, *case in ENDINGS]:
        ids = [1, *tokenizer.encode(prompt).ids]
        found = model.generate(torch.tensor([ids]), num_beams=beams, num_return_sequences=beams, do_sample=False,
                               max_new_tokens=most, length_penalty=penalty, early_stopping=False, eos_token_id=end,
                               pad_token_id=0, return_dict_in_generate=True, output_scores=True)
        texts = []
        for sequence, score in zip(found.sequences.tolist(), found.sequences_scores.tolist()):
            text = sequence[len(ids):]
            ended = end in text
            texts.append({"ids": text[: text.index(end)] if ended else text, "ended": ended, "score": score})
        cases.append({"prompt": prompt, "beams": beams, "max_tokens": most, "length_penalty": penalty, "texts": texts})
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    OUT.write_text(f"[\n{lines}\n]\n")
    print(len(cases), "cases,", sum(text["ended"] for case in cases for text in case["texts"]), "ended texts")


if __name__ == "__main__":
    main()
