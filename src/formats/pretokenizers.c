/* SPDX-License-Identifier: Apache-2.0
 * The table of pre-tokenizers: the regular expressions in the tokenizer.json of each, and the names
 * that llama.cpp's converter gives them. */
#include "formats/pretokenizers.h"

#include <stdbool.h>
#include <string.h>

/* Words whose capitals end where small letters begin, as in GPT-4o; CASED(numbers, end, sets). */
#define UPPER "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define CASED(not_han, contraction)                                                                \
    "[^\\r\\n\\p{L}\\p{N}]?[" UPPER not_han "]*[" LOWER not_han "]+" contraction                   \
    "|[^\\r\\n\\p{L}\\p{N}]?[" UPPER not_han "]+[" LOWER not_han "]*" contraction
#define OTHERS_AND_SLASHES " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" REGEX_BREAKS "|" REGEX_SPACES
#define GPT_4O CASED("", REGEX_CONTRACTIONS "?") "|\\p{N}{1,3}|" OTHERS_AND_SLASHES

#define NUMBERS "\\p{N}{1,3}"
#define CJK "[一-龥぀-ゟ゠-ヿ]+"
#define ASCII_WORDS                                                                                \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"                                       \
    "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+"
#define DEEPSEEK_V3 ASCII_WORDS "[\\r\\n]*|" REGEX_BREAKS "|" REGEX_SPACES

/* The letters of deepseek-llm: those of alphabets with two cases. */
#define CASED_LETTERS                                                                              \
    "[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-"         \
    "Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ"         \
    "-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"

#define WORDS_OF_BLOOM " ?[^(\\s|[.,!?…。，、।۔،])]+"

/* CLIP's tokenizer.json has one of the two: special tokens are found in texts before. */
#define WORDS_OF_CLIP "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+"
#define MARKS_OF_CLIP "<\\|startoftext\\|>|<\\|endoftext\\|>|"

static const struct pretokenizer table[] = {
    {"gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum jais trillion "
     "granite-docling exaone4",
     0,
     {REGEX_BYTE_LEVEL}},
    {"modern-bert mpt olmo", PRE_NFC, {REGEX_BYTE_LEVEL}},
    {"roberta-bpe jina-v1-en jina-v2-code", PRE_ENDS, {REGEX_BYTE_LEVEL}},
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     PRE_WHOLE | PRE_BOS,
     {REGEX_LLAMA3}},
    {"dbrx smaug-bpe chatglm-bpe", 0, {REGEX_LLAMA3}},
    {"glm4 glm5", PRE_WHOLE, {REGEX_LLAMA3}},
    {"qwen2 stablelm2", PRE_NFC, {REGEX_QWEN2}},
    {"deepseek-r1-qwen kormo f2llmv2 megrez hunyuan solar-open grok-2", 0, {REGEX_QWEN2}},
    {"qwen35",
     0,
     {REGEX_CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
                         "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" REGEX_BREAKS "|" REGEX_SPACES}},
    {"smollm starcoder refact codeshell exaone minerva-7b mellum2",
     0,
     {REGEX_DIGIT, REGEX_BYTE_LEVEL}},
    {"command-r", PRE_NFC, {REGEX_DIGIT, REGEX_BYTE_LEVEL}},
    {"gpt-4o llama4 kanana2 talkie minimax-m2", 0, {GPT_4O}},
    {"granite-embed-multi-97m", PRE_WHOLE, {GPT_4O}},
    {"tekken", PRE_WHOLE | PRE_BOS, {CASED("", "") "|\\p{N}|" OTHERS_AND_SLASHES}},
    {"tiny_aya cohere2moe", 0, {REGEX_GROUPS_ALONE, GPT_4O}},
    {"youtu",
     PRE_WHOLE,
     {"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|" CJK,
      CASED("", REGEX_CONTRACTIONS "?") "|\\p{N}|" OTHERS_AND_SLASHES}},
    {"kimi-k2",
     0,
     {"[\\p{Han}]+|" CASED("&&[^\\p{Han}]", REGEX_CONTRACTIONS
                           "?") "|\\p{N}{1,3}|" REGEX_OTHERS "|" REGEX_BREAKS "|" REGEX_SPACES}},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4", 0, {NUMBERS, CJK, DEEPSEEK_V3}},
    {"spark2_5", 0, {NUMBERS, CJK, ASCII_WORDS "|[\\r\\n]|" REGEX_SPACES, REGEX_DIGIT}},
    {"afmoe",
     0,
     {REGEX_GROUPS_OF_NUMBERS,
      "[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-"
      "꧿가-"
      "힯ᄀ-"
      "ᇿ]"
      "+",
      DEEPSEEK_V3}},
    {"deepseek-llm",
     0,
     {"[\\r\\n]", ("\\s?" CASED_LETTERS), "\\s?[!-/:-~！-／：-～‘-‟　-。]+", REGEX_TRAILING,
      "[一-龥ࠀ-一가-퟿]+", REGEX_DIGIT}},
    {"deepseek-coder",
     0,
     {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+", REGEX_DIGIT}},
    {"falcon", 0, {REGEX_PUNCTUATION "+", REGEX_BYTE_LEVEL, "[0-9][0-9][0-9]"}},
    {"default",
     0,
     {"[\\p{P}\\$\\+<=>\\^~\\|]+", REGEX_BYTE_LEVEL, REGEX_DIGITS, "[0-9][0-9][0-9]"}},
    {"bloom poro-chat gpt3-finnish", 0, {WORDS_OF_BLOOM}},
    {"viking", 0, {WORDS_OF_BLOOM, REGEX_DIGIT}},
    {"superbpe", 0, {REGEX_DIGITS, REGEX_GROUPS}},
    {"bailingmoe bailingmoe2 llada-moe",
     0,
     {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*"
      "|\\s*[\\r\\n]|" REGEX_SPACES}},
    {"seed-coder",
     0,
     {REGEX_CONTRACTIONS "|" REGEX_WORDS "|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" REGEX_BREAKS
                         "|" REGEX_SPACES}},
    {"ufakzeka", 0, {REGEX_WORDS "|\\p{N}|" REGEX_OTHERS "|" REGEX_BREAKS "|" REGEX_SPACES}},
    {"laguna", 0, {"[^\\n]+|[\\n]+", REGEX_QWEN2}},
    {"minicpm5", PRE_WHOLE, {NUMBERS, REGEX_MODERN("\\p{N}+")}},
    {"exaone-moe",
     0,
     {REGEX_CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}"
                         "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|" REGEX_SPACES}},
    {"jais-2",
     0,
     {REGEX_CONTRACTIONS "|" REGEX_WORDS "|\\p{N}{1,3}|" REGEX_OTHERS "|" REGEX_BREAKS
                         "|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)"
                         "|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)"
                         "|\\s{1,2}(?!\\S)|\\s{1}"}},
#ifndef __wasm__ /* whose modules do not read CLIP */
    {"clip", PRE_NFC | PRE_ENDS | PRE_WORDS, {WORDS_OF_CLIP, REGEX_BYTE_LEVEL}},
    {"clip-marks", PRE_NFC | PRE_ENDS | PRE_WORDS, {MARKS_OF_CLIP WORDS_OF_CLIP, REGEX_BYTE_LEVEL}},
#endif
    {"chameleon",
     PRE_BOS,
     {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", REGEX_DIGIT,
      REGEX_PUNCTUATION, REGEX_BYTE_LEVEL}},
};

enum { ROWS = sizeof table / sizeof *table };

static bool has_name(const struct pretokenizer *row, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = row->names; length > 0 && (at = strstr(at, name)); at += length)
        if ((at == row->names || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0') &&
            !strchr(name, ' '))
            return true;
    return false;
}

const struct pretokenizer *pretokenizer_find(const char *name) {
    for (size_t i = 0; i < ROWS; i++)
        if (has_name(&table[i], name))
            return &table[i];
    return NULL;
}

static bool has_regexes(const struct pretokenizer *row, const char *const *regexes, size_t count) {
    size_t i = 0;
    for (; i < count && i < PRETOKENIZER_STEPS && row->regexes[i]; i++)
        if (strcmp(row->regexes[i], regexes[i]) != 0)
            return false;
    return i == count && (i == PRETOKENIZER_STEPS || !row->regexes[i]);
}

const struct pretokenizer *pretokenizer_with(const char *const *regexes, size_t count,
                                             unsigned flags) {
    const struct pretokenizer *found = NULL;
    for (size_t i = 0; i < ROWS; i++) {
        if (!has_regexes(&table[i], regexes, count))
            continue;
        if (((table[i].flags ^ flags) & (PRE_NFC | PRE_WHOLE)) == 0)
            return &table[i];
        found = found ? found : &table[i];
    }
    return found;
}
