// SPDX-License-Identifier: Apache-2.0

/** The functions of src/binding/engine.c and wasm/host.c. Addresses of engines, blocks and texts are numbers. */
export interface Exports {
  memory: WebAssembly.Memory;
  _initialize(): void;
  allocate(bytes: number): number;
  release(block: number): void;
  engine_new(): number;
  engine_free(engine: number): void;
  engine_set(engine: number, name: number, text: number, number: number): number;
  engine_open(engine: number, size: number, lasting: boolean): number;
  engine_embed(
    engine: number,
    texts: number,
    n: number,
    prompt: number,
    dimensions: number,
    rows: number,
  ): number;
  engine_tokenize(
    engine: number,
    bytes: number,
    length: number,
    ids: number,
    capacity: number,
    count: number,
  ): number;
  engine_count(engine: number, bytes: number, length: number, count: number): number;
  engine_error_message(engine: number): number;
  engine_error_field(engine: number): number;
  engine_info(engine: number): number;
  engine_stats(engine: number): number;
  engine_prompt(engine: number, name: number): number;
  /** Modules that generate have none of the following. */
  engine_hot_bytes(engine: number, size: number, available: number): number;
  engine_error_status(engine: number): number;
  engine_begin(
    engine: number,
    texts: number,
    n: number,
    prompt: number,
    dimensions: number,
    rows: number,
    skipped: number,
  ): number;
  engine_continue(engine: number): number;
  engine_give_up(engine: number): void;
  engine_needs(engine: number, gap: number, ranges: number, count: number): number;
  engine_text_needs(
    engine: number,
    text: number,
    length: number,
    gap: number,
    ranges: number,
    count: number,
  ): number;
  engine_provide(engine: number, offset: number, bytes: number, length: number): number;
  engine_cold_stats(engine: number, stats: number): void;
  engine_neurons(engine: number, layer: number, into: number, words: number): number;
  engine_trace_tokens(engine: number, tokens: number): number;
  engine_token_neurons(engine: number, layer: number, token: number, into: number): number;
  /** Modules with wasm/threads/pool_workers.c have it: the members of the team. */
  thread_count?(): number;
}

/** The function of src/binding/rank. */
export interface RankExports extends Exports {
  engine_rank(engine: number, texts: number, n: number, scores: number): number;
}

/** The functions of src/binding/generate. */
export interface TextExports extends Exports {
  writing_new(engine: number): number;
  writing_free(writing: number): void;
  writing_open(writing: number, description: number, length: number, atOnce: number): number;
  writing_run(writing: number, seconds: number): number;
  search_new(engine: number): number;
  search_free(search: number): void;
  search_open(
    search: number,
    prompt: number,
    length: number,
    n: number,
    maxTokens: number,
    lengthPenalty: number,
    stopIds: number,
    stopCount: number,
  ): number;
  search_run(search: number, seconds: number): number;
  engine_text(engine: number): number;
  engine_logits(engine: number, ids: number, n: number, logits: number): number;
  engine_score(engine: number, ids: number, n: number, first: number, logprobs: number): number;
  engine_save(engine: number, bytes: number, capacity: number, size: number): number;
  engine_load(engine: number, bytes: number, size: number): number;
  engine_chat_template(engine: number): number;
  engine_cache_type(engine: number): number;
  engine_detokenize(engine: number, ids: number, n: number, continues: boolean): number;
}

/** The functions of wasm/languages/languages.c. */
export interface LanguageExports {
  memory: WebAssembly.Memory;
  _initialize(): void;
  allocate(bytes: number): number;
  release(block: number): void;
  answer(language: number, texts: number, n: number, answer: number): number;
}

/** The functions of wasm/convert/convert.c. */
export interface ConvertExports {
  memory: WebAssembly.Memory;
  _initialize(): void;
  allocate(bytes: number): number;
  convert(
    input: number,
    output: number,
    type: number,
    embeddingType: number,
    name: number,
    plain: boolean,
    neurons: boolean,
    hot: number,
    hotBytes: number,
    hotTokens: number,
    sparsity: number,
  ): number;
  error_message(): number;
  error_field(): number;
}

/** The functions of wisp-program.wasm, a command of WASI. */
export interface ProgramExports {
  memory: WebAssembly.Memory;
  _start(): void;
  cancel(): void;
}
