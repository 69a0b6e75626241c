/* SPDX-License-Identifier: Apache-2.0
 * The names of all metadata keys and tensors that wisp adds to GGUF, and of the feed-forward
 * matrices that it shares with llama.cpp. Code that reads or writes one of them takes its name from
 * here. docs/formats.md describes the same names for readers of the files.
 *
 * Keys that begin with the architecture's name ("bert.embedding_length") belong to src/models, and
 * "tokenizer.ggml." keys, which llama.cpp defines, to src/tokenizers.
 *
 * Words: layers is the number of layers, hidden_size the length of a token's vector, neurons the
 * intermediate_size, that is the number of neurons of one layer. A neuron j is row j of W_up (and
 * of W_gate if the layer has a gate) and column j of W_down. A neuron's place is its position in
 * KEY_SPARSE_ORDER. Shapes are [rows, values in a row]. */
#ifndef WISP_FORMATS_SCHEMA_H
#define WISP_FORMATS_SCHEMA_H

#include <stddef.h>

/* ---- the model: written by convert, read when a model is opened ------------------------------ */

/* string: the activation of the feed-forward layers, by Hugging Face's name: for bert and
 * mpnet "gelu" or "relu"; for nomic-bert and lfm2 "silu"; for llama, qwen2, qwen3, granite,
 * minicpm, smollm3 and phi3 "silu", "relu" or "relu2"; for olmo2 "silu"; for gpt2 "gelu_new",
 * "gelu", "relu" or "relu2"; for gemma2 and gemma3 "gelu_pytorch_tanh" or "relu"; for starcoder2
 * "gelu_pytorch_tanh", "gelu", "relu" or "relu2"; for clip "quick_gelu", "gelu" or
 * "gelu_pytorch_tanh". Default: the first name of the architecture.
 */
#define KEY_HIDDEN_ACT "wisp.hidden_act"

/* bool: an embedding is divided by its length. Default: true. */
#define KEY_NORMALIZE "wisp.normalize"

/* u32: texts are truncated to this many tokens. Default: the architecture's context_length. */
#define KEY_MAX_SEQ_LENGTH "wisp.max_seq_length"

/* string, one key for each prompt: the text put before a text to embed. The prompt's name follows
 * the prefix, as in "wisp.prompt.query". */
#define KEY_PROMPT_PREFIX "wisp.prompt."

/* string: the name of the prompt that is used unless the caller names another. Default: none. */
#define KEY_DEFAULT_PROMPT_NAME "wisp.default_prompt_name"

/* string: the adapter of a task that was merged into the weights. Default: none. */
#define KEY_ADAPTER "wisp.adapter"

/* bool: pooling includes the prompt's tokens. Otherwise mean pooling leaves them out, and cls
 * pooling takes the first token after them. Default: true. */
#define KEY_POOL_PROMPT "wisp.pool_prompt"

/* u32, at least 1: an embedding has only this many of the first values of the whole one, by whose
 * length it is divided. Default: the architecture's embedding_length, which is also the most. */
#define KEY_DIMENSIONS "wisp.dimensions"

/* Tensors NAME.weight [outputs, inputs] and perhaps NAME.bias [outputs]: dense layers after
 * pooling, in their order. The names are llama.cpp's. */
enum { DENSE_MODULES = 2 };
#define TENSOR_DENSE_2 "dense_2"
#define TENSOR_DENSE_3 "dense_3"

/* What the names of the tensors of an image tower begin with, and its keys: llama.cpp's. u32:
 * the pixels of a side of an image and of a patch; f32[3]: the mean and the standard deviation of
 * pixels from 0 to 1, of red, green and blue. */
#define CLIP_IMAGE_PREFIX "v."
#define KEY_IMAGE_SIZE "clip.vision.image_size"
#define KEY_PATCH_SIZE "clip.vision.patch_size"
#define KEY_IMAGE_MEAN "clip.vision.image_mean"
#define KEY_IMAGE_STD "clip.vision.image_std"

/* bool: an image keeps its shape, and the square in its middle is cut out; else all of it is
 * resized to a square. Default: true. */
#define KEY_IMAGE_CROPS "wisp.image.crops"

/* string: the filter by which images are resized, bicubic or bilinear, as Pillow has them. Default:
 * bicubic. */
#define KEY_IMAGE_FILTER "wisp.image.filter"

/* The head of models whose pooling_type is 4 (rank). It makes a score of a pair of texts, or of
 * each label. The norm, without a bias or with one, follows the first layer's activation. */
#define TENSOR_HEAD "cls"
#define TENSOR_HEAD_NORM "cls.norm"
#define TENSOR_HEAD_OUTPUT "cls.output"

/* u32, 1 (mean) or 2 (cls): what this head reads. Default: of modern-bert the mean, as llama.cpp
 * has it, else cls. */
#define KEY_HEAD_POOLING "wisp.head_pooling"

/* strings, under the architecture's prefix: the labels of such a head that gives several scores.
 * Default: LABEL_0, LABEL_1 and so on. */
#define KEY_LABELS "%s.classifier.output_labels"

/* string: what makes scores of the head's outputs, "softmax", "sigmoid" or "identity". Default:
 * "softmax", of one output "sigmoid". */
#define KEY_LABELS_FUNCTION "wisp.classifier.function"

/* The pooling_type of a model whose head guesses words and makes a sparse vector of the guesses,
 * with a value for each word of the vocabulary (SPLADE). llama.cpp has no number for it. */
#define POOLING_TYPE_SPLADE 65536

/* And that of models of late interaction, whose texts have a vector for each token. u32: the most
 * tokens of a query, and of a document (default: those of a text); how many tokens queries are
 * filled up to with tokenizer.ggml.mask_token_id (default: they are not). bool: other tokens see
 * those (default: false); the prompts "query" and "document" begin with a word that is a token,
 * which stands behind the first token of each text (default: false). strings: words whose tokens
 * have no vector in documents. */
#define POOLING_TYPE_TOKENS 65537
#define KEY_TOKENS_QUERY_LENGTH "wisp.tokens.query_length"
#define KEY_TOKENS_DOCUMENT_LENGTH "wisp.tokens.document_length"
#define KEY_TOKENS_EXPANDED "wisp.tokens.expanded_length"
#define KEY_TOKENS_ATTENDS "wisp.tokens.attends"
#define KEY_TOKENS_PREFIXES "wisp.tokens.prefixes"
#define KEY_TOKENS_SKIPPED "wisp.tokens.skipped"

/* The head: a dense layer with a GELU, a layer norm, and a dense layer that gives each word a
 * value, whose weight is token_embd.weight unless it is there. */
#define TENSOR_SPLADE_DENSE "splade_dense"
#define TENSOR_SPLADE_NORM "splade_norm"
#define TENSOR_SPLADE_OUTPUT "splade_output"

/* bool: a word's values are summed over the tokens of a text. Default: the largest one counts. */
#define KEY_SPLADE_SUMS "wisp.splade.sums"

/* u32, 1 or 2: how often the logarithm of 1 more than a value is taken. Default: once. */
#define KEY_SPLADE_LOGARITHMS "wisp.splade.logarithms"

/* u32: special tokens between the two texts of a pair, each the last special token of a text.
 * Default: 1 if tokenizer.ggml.model is bert, else 2. */
#define KEY_PAIR_SEPARATORS "wisp.tokenizer.pair_separators"

/* bool: tokens of the second text of a pair have type 1. Default: true. */
#define KEY_PAIR_TYPES "wisp.tokenizer.pair_types"

/* string, with one of these names for %s: the activation that follows the layer,
 * "identity", "tanh", "relu" or "sigmoid". Default: "identity", of "cls" "tanh", normed "gelu". */
#define KEY_DENSE_ACTIVATION "wisp.%s.activation"

/* ---- PT-BitNet's keys: with the first, tensors of type 30 are BITNET_T158, not BF16 -----------
 */

/* string: the version of the format, which is "1". */
#define KEY_BITNET_VERSION "craftsman.bitnet.version"
#define BITNET_VERSION "1"

/* string: the elements in a block, which are "256". Default: these. */
#define KEY_BITNET_BLOCK_SIZE "craftsman.bitnet.block_size"
#define BITNET_BLOCK_SIZE "256"

/* string: "absmean_ternary"; "8"; "tl1". Written for other readers: wisp does not read them. */
#define KEY_BITNET_WEIGHT_ENCODING "craftsman.bitnet.weight_encoding"
#define KEY_BITNET_ACTIVATION_BITS "craftsman.bitnet.activation_bits"
#define KEY_BITNET_KERNEL_HINT "craftsman.bitnet.kernel_hint"
#define KEY_BITNET_PREFIX "craftsman.bitnet."

/* string: config.json of a model whose architecture wisp does not know, and which was only
 * quantised. Its tensors have the names of the Hugging Face folder. */
#define KEY_HUGGINGFACE_CONFIG "wisp.huggingface.config"

/* ---- the tokenizer: what GGUF has no keys for ------------------------------------------------ */

/* bool: control characters are removed and white space becomes spaces. Default: true. */
#define KEY_TOKENIZER_CLEAN_TEXT "wisp.tokenizer.clean_text"

/* bool: each Chinese character is a word of its own. Default: true. */
#define KEY_TOKENIZER_HANDLE_CHINESE_CHARS "wisp.tokenizer.handle_chinese_chars"

/* llama.cpp's key for the texts of tokens. */
#define KEY_GGML_TOKENS "tokenizer.ggml.tokens"

/* llama.cpp's keys for two of the settings below. A file may have both names of a setting if
 * they agree. */
#define KEY_GGML_LOWERCASE "tokenizer.ggml.normalizer.lowercase"
#define KEY_GGML_STRIP_ACCENTS "tokenizer.ggml.normalizer.strip_accents"

/* bool: text is converted to lower case. Default: KEY_GGML_LOWERCASE, else true; of SentencePiece
 * false. */
#define KEY_TOKENIZER_LOWERCASE "wisp.tokenizer.lowercase"

/* bool: accents are removed from letters. Default: KEY_GGML_STRIP_ACCENTS, else whether text is
 * converted to lower case. */
#define KEY_TOKENIZER_STRIP_ACCENTS "wisp.tokenizer.strip_accents"

/* u32: a word of more characters becomes the unknown token. Default: 100. */
#define KEY_TOKENIZER_MAX_INPUT_CHARS_PER_WORD "wisp.tokenizer.max_input_chars_per_word"

/* u32: tokens with this id or a larger one are added tokens, not pieces of words. Default: the
 * number of tokens. */
#define KEY_TOKENIZER_MODEL_TOKENS "wisp.tokenizer.model_tokens"

/* i32[any number]: ids of tokens that continue a word although their spelling in the file looks
 * like the start of one. Default: none. */
#define KEY_TOKENIZER_CONTINUATIONS "wisp.tokenizer.continuations"

/* i32[n]: ids of the added tokens, which are found in the text before it is split into words.
 * Default: the file's control and user-defined tokens. A model that generates finds its
 * user-defined tokens whether they are listed or not; the list is for their flags. */
#define KEY_TOKENIZER_ADDED_TOKENS "wisp.tokenizer.added_tokens"

/* u8[n], one for each id of KEY_TOKENIZER_ADDED_TOKENS: how the token is matched, a sum of 1
 * (single_word), 2 (lstrip), 4 (rstrip) and 8 (normalized). */
#define KEY_TOKENIZER_ADDED_FLAGS "wisp.tokenizer.added_flags"

/* i32[any number]: ids of tokens that end a generated text, beside those that GGUF's keys name.
 * Default: none. */
#define KEY_TOKENIZER_END_TOKENS "wisp.tokenizer.end_tokens"

/* string: where SentencePiece puts the space before a text: "each" (before the text and after each
 * added token), "first" (before the text, unless that begins with a space), "always" (if "each"
 * has it, unless there is a space) or "text" (before the text, even if that begins with a space;
 * only with KEY_TOKENIZER_DROPS_PUNCTUATION). Default: each, as in llama.cpp. */
#define KEY_TOKENIZER_SPACE_PREFIX "wisp.tokenizer.space_prefix"

/* bool: in byte-level BPE, a word that is a token becomes it, whatever the merges say. Default:
 * what llama.cpp does with the pre-tokenizer, true of llama-bpe and lfm2. */
#define KEY_TOKENIZER_IGNORE_MERGES "wisp.tokenizer.ignore_merges"

/* bool: with tokenizer.ggml.remove_extra_whitespaces, all white space counts as spaces, as where
 * WhitespaceSplit cuts a text. Default: whether the tokenizer is a unigram one. */
#define KEY_TOKENIZER_WHITE_SPACE "wisp.tokenizer.white_space"

/* bool: with tokenizer.ggml.remove_extra_whitespaces, all white space at the ends of a text is
 * dropped before the character map is applied, and none after it. Default: false. */
#define KEY_TOKENIZER_STRIPS_FIRST "wisp.tokenizer.strips_first"

/* bool: texts are brought into normalization form C before byte-level BPE cuts them. Default: what
 * the pre-tokenizer's models do. */
#define KEY_TOKENIZER_NFC "wisp.tokenizer.nfc"

/* bool: no token of SentencePiece's reaches past a space, which begins a word. Default: false. */
#define KEY_TOKENIZER_SPLIT_SPACES "wisp.tokenizer.split_spaces"

/* u32: each text is filled up to so many tokens with that of tokenizer.ggml.padding_token_id, which
 * the others see as any token. Default: texts are not filled up. */
#define KEY_TOKENIZER_FILLS "wisp.tokenizer.fills"

/* bool: of SentencePiece, ASCII punctuation is dropped from texts, and white space becomes one
 * space. Default: false. */
#define KEY_TOKENIZER_DROPS_PUNCTUATION "wisp.tokenizer.drops_punctuation"

/* ---- calibration: written by calibrate, removed by convert --plain --------------------------- */

/* The prefix of the next four keys. */
#define KEY_SPARSE_PREFIX "wisp.sparse."

/* i32[layers, neurons]: the neuron at each place of a layer, each neuron once. Neurons that tokens
 * need most often have the first places. */
#define KEY_SPARSE_ORDER "wisp.sparse.order"

/* i32[layers]: the number of hot neurons, which have the first places: nine tenths of all the
 * activations that tokens need belong to them. */
#define KEY_SPARSE_HOT "wisp.sparse.hot"

/* f32[levels], rising, above 0 and at most 1: the shares of neurons to compute for which the file
 * has thresholds. A file with this key is a calibrated one. */
#define KEY_SPARSE_SHARES "wisp.sparse.shares"

/* f32, above 0 and at most 1: the share of neurons to compute unless the caller sets another.
 * Default: the last of KEY_SPARSE_SHARES. */
#define KEY_SPARSE_SHARE "wisp.sparse.share"

/* ---- gates: written by calibrate of a model that generates, removed by convert --plain ---------
 */

/* The prefix of the next two keys. */
#define KEY_GATE_PREFIX "wisp.gate."

/* f32[levels], rising, above 0 and at most 1: the shares of neurons to compute that the levels of
 * TENSOR_GATE_LEVELS stand for. */
#define KEY_GATE_SHARES "wisp.gate.shares"

/* f32, above 0 and at most 1: the share of neurons to compute unless the caller sets another.
 * Default: the last of KEY_GATE_SHARES. */
#define KEY_GATE_SHARE "wisp.gate.share"

/* ---- attention: written by calibrate --attention, removed by convert --plain -------------------
 */

/* The prefix of the next keys. */
#define KEY_ATTENTION_PREFIX "wisp.attention."

/* string: the policies that --attention auto stands for, as in --attention. */
#define KEY_ATTENTION_AUTO "wisp.attention.auto"

/* u8[32]: the SHA-256 of the model's norms (attention/learned.h), by which the masks of one model
 * are told from those of another. A file with this key has the next five, too. */
#define KEY_ATTENTION_MODEL "wisp.attention.model"

/* u32, at least 1: the steps of 64 positions of the texts that the masks were learned from. */
#define KEY_ATTENTION_STEPS "wisp.attention.steps"

/* u32: the first positions, at which all heads look. */
#define KEY_ATTENTION_SINKS "wisp.attention.sinks"

/* u8[layers, key-value heads], of the layers that have keys and values: what is left out, a number
 * of enum attention_kind (attention/learned.h). */
#define KEY_ATTENTION_KINDS "wisp.attention.kinds"

/* i32[layers, key-value heads], at least 64: the last positions, which are looked at in any case.
 */
#define KEY_ATTENTION_WINDOWS "wisp.attention.windows"

/* u8[layers, key-value heads, bytes of a mask]: the bits of each mask, of a byte the lowest first.
 */
#define KEY_ATTENTION_MASKS "wisp.attention.masks"

/* ---- neurons stored as rows: written by calibrate and convert --neurons ---------------------- */

/* The prefix of the next two keys. */
#define KEY_NEURONS_PREFIX "wisp.neurons."

/* i32[layers]: GGML's number of the type of the layer's matrices, or -1 if the layer is stored
 * plain. */
#define KEY_NEURONS_TYPES "wisp.neurons.types"

/* i32[layers, 2 or 3]: the positions of W_up, W_gate (if there is a gate) and W_down in the list
 * of tensors of the plain file, or -1 if the layer is stored plain. */
#define KEY_NEURONS_PLACES "wisp.neurons.places"

/* ---- token embeddings by frequency: the order written by calibrate, the tensors by convert ------
 */

/* The prefix of the next key. */
#define KEY_TOKENS_PREFIX "wisp.tokens."

/* u16[tokens], or i32[tokens] if there are more than 65536: each token once, those that occur
 * most often first. */
#define KEY_TOKENS_ORDER "wisp.tokens.order"

/* A file with hot tokens has the second and third tensor instead of the first: the rows of the
 * first tokens of KEY_TOKENS_ORDER, and the rows of all others, both in that order. */
#define TENSOR_TOKENS "token_embd.weight"
#define TENSOR_TOKENS_HOT "token_embd.hot"
#define TENSOR_TOKENS_COLD "token_embd.cold"

/* ---- hashes of chunks: written with rows of neurons -------------------------------------------
 */

/* The prefix of the next two keys, of which a file has both or neither (formats/chunks.h). */
#define KEY_CHUNKS_PREFIX "wisp.chunks."

/* u32, a power of two from 4096 to 1048576: the bytes of a chunk. */
#define KEY_CHUNKS_BYTES "wisp.chunks.bytes"

/* u8[chunks, 32]: the SHA-256 of each chunk of the file after its header. */
#define KEY_CHUNKS_SHA256 "wisp.chunks.sha256"

/* ---- tensors of a layer ---------------------------------------------------------------------- */

/* A layer's tensor is called "blk.<layer>.<part><suffix>", layers counted from 0. Parts are the
 * TENSOR_ names below. A part that is a linear layer has two tensors: one with the suffix ".weight"
 * (its matrix) and one with ".bias" (one value for each row of the matrix). */
#define TENSOR_LAYER_PREFIX "blk."
#define TENSOR_WEIGHT ".weight"
#define TENSOR_BIAS ".bias"

enum { TENSOR_NAME_BYTES = 64 }; /* room for the longest name of a layer's tensor */

/* Writes the name of a tensor of layer `layer` and returns `name`. `suffix` is TENSOR_WEIGHT,
 * TENSOR_BIAS or "". */
const char *layer_tensor_name(char name[TENSOR_NAME_BYTES], size_t layer, const char *part,
                              const char *suffix);

/* llama.cpp's names of the feed-forward matrices. Linear layers of any type: W_up and W_gate
 * [neurons, hidden_size], W_down [hidden_size, neurons]. Not every architecture has a gate or
 * biases. */
#define TENSOR_FFN_UP "ffn_up"
#define TENSOR_FFN_GATE "ffn_gate"
#define TENSOR_FFN_DOWN "ffn_down"

/* llama.cpp's names of layers of experts: the router, a linear layer [experts, hidden_size]; a
 * value for each expert that is added to the values that decide the choice, ".bias" alone; and the
 * matrices of all experts, each as those above, stacked in one tensor [experts, rows, columns]. */
#define TENSOR_ROUTER "ffn_gate_inp"
#define TENSOR_ROUTER_CHOICE "exp_probs_b"
#define TENSOR_GATE_EXPERTS "ffn_gate_exps"
#define TENSOR_UP_EXPERTS "ffn_up_exps"
#define TENSOR_DOWN_EXPERTS "ffn_down_exps"

/* And those of experts that all tokens use, as one layer. */
#define TENSOR_GATE_SHARED "ffn_gate_shexp"
#define TENSOR_UP_SHARED "ffn_up_shexp"
#define TENSOR_DOWN_SHARED "ffn_down_shexp"

/* Added to the sum of a token's experts; there is only ".bias" [hidden_size]. A name of wisp's. */
#define TENSOR_EXPERTS "ffn_exps"

/* Rows of the hot neurons and of all others, in the order of their places; see docs/formats.md for
 * the bytes of a row. F32, F16 or BF16 [n, 2 or 3 times hidden_size], or I8 [n, bytes of a row] for
 * quantised matrices. No suffix. Absent if n is 0. */
#define TENSOR_NEURONS_HOT "ffn_neurons.hot"
#define TENSOR_NEURONS_COLD "ffn_neurons.cold"

/* F16 [hidden_size, neurons / 32]: the scales of W_down's blocks of 32, beside the rows of a layer
 * whose matrices are Q8_0 or Q4_0. No suffix. */
#define TENSOR_DOWN_SCALES "ffn_down_scales"

/* F32 [hidden_size], beside the rows of a layer: the numbers by which W_down's rows are divided
 * before its columns are quantised to int8. They depend on all neurons of the layer, so a neuron
 * can be packed alone only if they are stored. Derived if absent. No suffix. */
#define TENSOR_DOWN_ROW_SCALES "ffn_down_row_scales"

/* F32 [hidden_size], beside the rows of a layer that has TENSOR_CENTER: the bias of W_down plus
 * W_down times the centers. Derived if absent. No suffix. */
#define TENSOR_DOWN_BASE "ffn_down_base"

/* The predictor `lowrank`, which estimates for each token which neurons matter. It computes a logit
 * for each neuron, Q (P x + p) + q, from the layer's input x. P and p: linear, Q8_0, Q4_0 or F32,
 * [rank, hidden_size]. Q and q: linear, the same types, [neurons, rank], rows by place. In a file
 * whose layers all have the same P and p, these are called "ffn_predictor_p.weight" and
 * "ffn_predictor_p.bias", without a layer in front. */
#define TENSOR_PREDICTOR_P "ffn_predictor_p"
#define TENSOR_PREDICTOR_Q "ffn_predictor_q"

/* F32 [levels, neurons], by place: for each level of KEY_SPARSE_SHARES the logit above which a
 * neuron is computed. No suffix. */
#define TENSOR_THRESHOLDS "ffn_thresholds"

/* The predictor `sentence`: the same three tensors, with x the mean of the layer's inputs over all
 * tokens of a text. It chooses once for the whole text. Absent unless asked for. */
#define TENSOR_SENTENCE_P "ffn_sentence_p"
#define TENSOR_SENTENCE_Q "ffn_sentence_q"
#define TENSOR_SENTENCE_THRESHOLDS "ffn_sentence_thresholds"

/* F32 [hidden_size]: the factors by which the layer's input is multiplied before it is quantised to
 * int8. The columns of W_up and W_gate are divided by them. No suffix. */
#define TENSOR_FACTORS "ffn_factors"

/* F32 [neurons], by neuron: the activation that a skipped neuron is assumed to have. Only of layers
 * with GELU; 0 if absent. No suffix. */
#define TENSOR_CENTER "ffn_center"

/* F32 [neurons], by neuron: the share of calibration tokens that need the neuron, which means that
 * its contribution is not 0 (with ReLU) or is among the largest fifth (without). No suffix. */
#define TENSOR_FREQUENCY "ffn_frequency"

/* F32 [neurons], by neuron, of a gated layer: what the magnitude of a neuron's activated gate is
 * multiplied by for its score (sparse/gathered.h). No suffix. */
#define TENSOR_GATE_WEIGHTS "ffn_gate_weights"

/* F32 [levels]: for each level of KEY_GATE_SHARES the least score of a neuron that is computed. No
 * suffix. */
#define TENSOR_GATE_LEVELS "ffn_gate_levels"

/* Linear, Q8_0 or F32, [hidden_size, rank]: an estimate B (P x + p) + b of what the skipped neurons
 * would have added. It is multiplied by (1 - share)^2, where share is the share of neurons computed
 * for the token, and added to the layer's output. Absent if it gains too little. */
#define TENSOR_COMPENSATION "ffn_compensation"

#endif
