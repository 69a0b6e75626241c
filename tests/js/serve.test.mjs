// SPDX-License-Identifier: Apache-2.0
// wisp serve: the rows of the program over HTTP, in the forms of OpenAI and of text-embeddings-inference.
import assert from 'node:assert/strict';
import { Agent, request } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { ask, post, serve, skip, untilQueued } from './serve-program.mjs';
import { ROOT, floatsOf, wisp } from './support.mjs';

/** @typedef {import('./serve-program.mjs').Server} Server */

const TEXTS = ['cats are nice', 'the bank', 'Ein Satz mit „Zeichen“ 😀', ''];

const expected = () => {
  const rows = floatsOf(
    wisp(
      ['embed', '--input', 'ndjson', '--format', 'f32'],
      TEXTS.map((t) => JSON.stringify(t)).join('\n'),
    ).bytes,
  );
  return TEXTS.map((_, i) => [...rows.subarray(i * 384, (i + 1) * 384)]);
};

describe('wisp serve', { skip }, () => {
  /** @type {Server} */
  let server;
  before(async () => (server = await serve()));
  after(() => server?.stop());

  test('gives the rows of the program, as numbers and in base64', async () => {
    const rows = expected();
    const floats = await post(server, '/v1/embeddings', { model: 'any', input: TEXTS });
    assert.equal(floats.status, 200);
    assert.deepEqual(
      floats.body.data.map((/** @type {{ embedding: number[] }} */ row) => [
        ...Float32Array.from(row.embedding),
      ]),
      rows,
    );
    assert.equal(floats.body.object, 'list');
    assert.equal(floats.body.usage.prompt_tokens, floats.body.usage.total_tokens);
    const base64 = await post(server, '/v1/embeddings', {
      input: TEXTS,
      encoding_format: 'base64',
    });
    for (const [i, { embedding, index }] of base64.body.data.entries()) {
      assert.equal(index, i);
      assert.deepEqual([...floatsOf(Buffer.from(embedding, 'base64'))], rows[i]);
    }
    assert.deepEqual((await post(server, '/embed', { inputs: TEXTS })).body.map(roundTrip), rows);
  });

  test('takes a string, token ids and dimensions', async () => {
    const [row] = expected();
    const one = await post(server, '/v1/embeddings', { input: TEXTS[0] });
    assert.deepEqual(roundTrip(one.body.data[0].embedding), row);
    const ids = JSON.parse(wisp(['tokenize', '--text', TEXTS[0]]).out);
    const byIds = await post(server, '/v1/embeddings', { input: [ids, ids.slice(1, -1)] });
    for (const { embedding } of byIds.body.data) assert.deepEqual(roundTrip(embedding), row);
    const cut = await post(server, '/v1/embeddings', { input: TEXTS[0], dimensions: 64 });
    const length = Math.hypot(...row.slice(0, 64));
    const [first] = roundTrip(cut.body.data[0].embedding);
    assert.ok(Math.abs(first - row[0] / length) < 1e-6);
    assert.equal(cut.body.data[0].embedding.length, 64);
  });

  test('compares and tokenizes as TEI does', async () => {
    const [a, b] = expected();
    const inputs = { source_sentence: TEXTS[0], sentences: [TEXTS[0], TEXTS[1]] };
    const { body } = await post(server, '/similarity', { inputs });
    assert.ok(Math.abs(body[0] - 1) < 1e-5);
    assert.ok(Math.abs(body[1] - a.reduce((sum, x, i) => sum + x * b[i], 0)) < 1e-5);
    const tokens = (await post(server, '/tokenize', { inputs: 'Hello' })).body[0];
    assert.deepEqual(
      tokens.map((/** @type {{ id: number, special: boolean }} */ t) => [t.id, t.special]),
      [[101, true], [7592, false], [102, true]], // prettier-ignore
    );
    const long = 'word '.repeat(600);
    const both = { source_sentence: 'a', sentences: ['b', long] };
    for (const [path, body, place] of /** @type {[string, any, any?][]} */ ([
      ['/embed', { inputs: long }],
      ['/v1/embeddings', { input: long }],
      ['/similarity', { inputs: both }, { parameters: { truncate: true } }],
    ])) {
      const whole = await post(server, path, body);
      assert.deepEqual([path, whole.status], [path, 413]);
      assert.match(whole.body.error.message, /text \d has 602 tokens, and the model takes 256/);
      assert.equal((await post(server, path, { ...body, ...(place ?? { truncate: true }) })).status, 200); // prettier-ignore
    }
  });

  test('says what is wrong with a request', async () => {
    for (const [
      path,
      body,
      status,
      message,
    ] of /** @type {[string, unknown, number, RegExp][]} */ ([
      ['/v1/embeddings', '{"input"', 400, /line 1/],
      ['/v1/embeddings', '[1]', 400, /must be a JSON object/],
      ['/v1/embeddings', {}, 400, /input: is missing or empty/],
      ['/v1/embeddings', { input: [{}] }, 400, /must be a string/],
      ['/v1/embeddings', { input: [[101, 999999]] }, 400, /999999/],
      ['/v1/embeddings', { input: [[7592, 7592], [0.5]] }, 400, /whole numbers/],
      ['/v1/embeddings', { input: 'a', dimensions: 385 }, 400, /from 1 to 384/],
      ['/v1/embeddings', { input: 'a', encoding_format: 'hex' }, 400, /"float" or "base64"/],
      ['/v1/embeddings', { input: Array(2049).fill('a') }, 413, /2048/],
      ['/embed', { inputs: 'a', prompt_name: 'none' }, 400, /no such prompt/],
      ['/embed', { inputs: 'a', normalize: false }, 400, /normalised/],
      ['/embed', { inputs: 'a', normalize: 'no' }, 400, /normalize: must be true or false/],
      ['/embed', { inputs: 'a', truncate: 1 }, 400, /truncate: must be true or false/],
      ['/tokenize', { inputs: 'a', add_special_tokens: 0 }, 400, /must be true or false/],
      ['/nothing', {}, 404, /there is no/],
      ['/health', {}, 405, /does not take POST/],
    ])) {
      const reply = await post(server, path, body);
      assert.equal(reply.status, status, JSON.stringify(reply.body));
      assert.match(reply.body.error.message, message);
    }
  });

  test('tells how it is', async () => {
    const get = async (/** @type {string} */ path) => (await fetch(server.url + path)).text();
    assert.deepEqual(JSON.parse(await get('/health')), { status: 'ok' });
    assert.equal(JSON.parse(await get('/v1/models')).data[0].object, 'model');
    assert.equal(JSON.parse(await get('/info')).max_input_length, 256);
    const metrics = await get('/metrics');
    assert.match(metrics, /^wisp_requests_total\{path="\/health",status="2xx"\} \d+$/m);
    assert.match(metrics, /^wisp_texts_total [1-9]/m);
    assert.match(metrics, /le="\+Inf"/);
  });

  test('answers no malformed request', async () => {
    const head = 'Host: localhost\r\nConnection: close\r\n';
    for (const [length, wanted] of [
      ['99999999999', 413],
      ['-1', 411],
    ]) {
      const { status } = await ask(
        server,
        `POST /embed HTTP/1.1\r\n${head}Content-Length: ${length}\r\n\r\n`,
      );
      assert.equal(status, wanted);
    }
  });

  test('a short request does not wait for a long one; many at a time have the rows that each has alone', async () => {
    const [row] = expected();
    const order = /** @type {string[]} */ ([]);
    const long = post(server, '/v1/embeddings', {
      input: Array(1500).fill('a longer text of some words'),
    });
    await untilQueued(server);
    const short = post(server, '/v1/embeddings', { input: TEXTS[0] }).then((reply) => {
      order.push('short');
      return reply;
    });
    long.then(() => order.push('long'));
    assert.deepEqual(roundTrip((await short).body.data[0].embedding), row);
    assert.equal((await long).status, 200);
    assert.deepEqual(order, ['short', 'long']);
    const replies = await Promise.all(
      Array.from({ length: 200 }, () => post(server, '/embed', { inputs: TEXTS[0] })),
    );
    for (const reply of replies) assert.deepEqual(roundTrip(reply.body[0]), row);
  });
});

test(
  'more clients than threads that keep their connections all get replies',
  { skip, timeout: 60_000 },
  async () => {
    const server = await serve(['--connections', '2']);
    const agent = new Agent({ keepAlive: true, maxSockets: 6 });
    const replied = new Set();
    const ask = () =>
      new Promise((resolve, reject) => {
        const sent = request(
          { port: server.port, agent, path: '/embed', method: 'POST' },
          (reply) => {
            reply.resume().on('end', () => resolve(reply.statusCode));
          },
        );
        sent.on('error', reject).end('{"inputs":"a"}');
      });
    // Each asks until all have a reply: a client that held its thread would keep the others waiting.
    const clients = Array.from({ length: 6 }, async (_, i) => {
      do {
        assert.equal(await ask(), 200);
        replied.add(i);
      } while (replied.size < 6);
    });
    await Promise.all(clients);
    agent.destroy();
    await server.stop();
  },
);

describe('wisp serve ranks', { skip }, () => {
  const MODEL = `${ROOT}tests/data/models/rank-bert`;
  const query = 'where do cats sleep?';
  const texts = ['the bank is closed', 'cats sleep on the sofa', '', 'cats are nice'];
  /** @type {Server} */
  let server;
  before(async () => (server = await serve(['-m', MODEL])));
  after(() => server?.stop());
  const scores = () =>
    wisp(['rerank', '-m', MODEL, '--pairs'], texts.map((text) => `${query}\t${text}\n`).join(''))
      .out.trimEnd()
      .split('\n')
      .map(Number);

  test('has the scores of the program, best first', async () => {
    const expected = scores();
    assert.equal(expected.length, texts.length);
    const { status, body } = await post(server, '/rerank', { query, texts, return_text: true });
    assert.equal(status, 200, JSON.stringify(body));
    assert.deepEqual(
      body.map((/** @type {{ index: number }} */ r) => r.index).toSorted(),
      [0, 1, 2, 3],
    );
    for (const [i, { index, score, text }] of body.entries()) {
      assert.equal(text, texts[index]);
      assert.ok(Math.abs(score - expected[index]) < 1e-6); // the program prints six digits
      assert.ok(i === 0 || score <= body[i - 1].score);
    }
    const jina = await post(server, '/v1/rerank', {
      model: 'x',
      query,
      documents: texts,
      top_n: 2,
    });
    assert.equal(jina.body.results.length, 2);
    assert.equal(jina.body.results[0].index, body[0].index);
    assert.equal(jina.body.results[1].relevance_score, body[1].score);
    assert.ok(jina.body.usage.total_tokens > 20);
  });

  test('many requests at a time have the scores that each has alone', async () => {
    const ask = (/** @type {string} */ q) => post(server, '/rerank', { query: q, texts });
    const queries = Array.from({ length: 24 }, (_, i) => `query ${i}`);
    const together = await Promise.all(queries.map(ask));
    for (const i of [0, 7, 23]) assert.deepEqual(together[i].body, (await ask(queries[i])).body);
  });

  test('says what is wrong with a request', async () => {
    for (const [path, body, status, message] of /** @type {[string, object, number, RegExp][]} */ ([
      ['/rerank', { texts }, 400, /query: must be a string/],
      ['/rerank', { query, texts: [] }, 400, /texts: is missing or empty/],
      ['/rerank', { query, texts, raw_scores: true }, 400, /sigmoid/],
      ['/rerank', { query, texts: ['word '.repeat(600)] }, 413, /text 0 has/],
      ['/v1/rerank', { query, documents: texts, top_n: 0 }, 400, /top_n/],
      ['/v1/rerank', { query, documents: ['word '.repeat(600)] }, 413, /documents: text 0 has/],
      ['/v1/embeddings', { input: 'a' }, 400, /makes no embeddings/],
    ])) {
      const reply = await post(server, path, body);
      assert.equal(reply.status, status, JSON.stringify(reply.body));
      assert.match(reply.body.error.message, message);
    }
    const cut = { query, texts: ['word '.repeat(600)], truncate: true };
    assert.equal((await post(server, '/rerank', cut)).status, 200);
    const { texts: documents } = cut;
    assert.equal((await post(server, '/v1/rerank', { ...cut, documents })).status, 200);
  });
});

describe('wisp serve generates', { skip }, () => {
  const STORIES = `${ROOT}models/wisp-stories.gguf`;
  const prompt = 'Once upon a time';
  /** @type {Server} */
  let server;
  before(async () => (server = await serve(['-m', STORIES, '--chat-format', 'plain'])));
  after(() => server?.stop());
  const written = (/** @type {string[]} */ ...args) =>
    wisp(['generate', '-m', STORIES, '--text', prompt, '-n', '12', ...args]).out;
  /** Posts, and returns the data of the events. @param {string} path @param {object} body */
  const events = async (path, body) => {
    const reply = await fetch(server.url + path, { method: 'POST', body: JSON.stringify(body) });
    assert.equal(reply.headers.get('content-type'), 'text/event-stream');
    return [...(await reply.text()).matchAll(/^data: (.*)$/gm)].map(([, data]) => data);
  };

  test('/info has the type of keys and values', async () => {
    const info = await (await fetch(`${server.url}/info`)).json();
    assert.equal(info.cache_type, 'f32');
  });

  test('completions have the text of the program, whole and streamed', async () => {
    const expected = written().replace(/\n$/, '');
    const body = { prompt, max_tokens: 12, temperature: 0 };
    const whole = await post(server, '/v1/completions', body);
    assert.equal(whole.body.choices[0].text, expected);
    assert.equal(whole.body.choices[0].finish_reason, 'length');
    assert.equal(whole.body.usage.completion_tokens, 12);
    const stream = await events('/v1/completions', {
      ...body,
      stream: true,
      stream_options: { include_usage: true },
    });
    assert.equal(stream.at(-1), '[DONE]');
    const chunks = stream.slice(0, -1).map((data) => JSON.parse(data));
    assert.equal(chunks.map((chunk) => chunk.choices[0]?.text ?? '').join(''), expected);
    assert.equal(chunks.at(-1).usage.completion_tokens, 12);
    const seeded = { ...body, temperature: 1, seed: 7 };
    const [a, b] = await Promise.all(
      [seeded, seeded].map((each) => post(server, '/v1/completions', each)),
    );
    assert.equal(a.body.choices[0].text, b.body.choices[0].text);
    // 0 is the smallest share of the probability, not all of it.
    for (const option of [{ top_p: 0 }, { top_p: 1e-320 }, { typical_p: 0, top_k: 1 }]) {
      const one = await post(server, '/v1/completions', { ...body, temperature: 1, ...option });
      assert.equal(one.body.choices[0].text, expected);
    }
  });

  test('chats, with log-probabilities, schemas and stops', async () => {
    const messages = [{ role: 'user', content: prompt }];
    const body = { messages, max_tokens: 12, temperature: 0 };
    const whole = await post(server, '/v1/chat/completions', {
      ...body,
      logprobs: true,
      top_logprobs: 2,
    });
    const [choice] = whole.body.choices;
    assert.equal(choice.message.role, 'assistant');
    assert.equal(choice.logprobs.content.length, 12);
    assert.equal(choice.logprobs.content[0].top_logprobs.length, 2);
    const stream = await events('/v1/chat/completions', { ...body, stream: true });
    const chunks = stream.slice(0, -1).map((data) => JSON.parse(data));
    assert.equal(chunks[0].choices[0].delta.role, 'assistant');
    assert.equal(
      chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join(''),
      choice.message.content,
    );
    assert.equal(chunks.at(-1).choices[0].finish_reason, 'length');
    const schema = {
      type: 'json_schema',
      json_schema: { name: 'x', schema: { enum: ['red', 'green'] } },
    };
    const json = await post(server, '/v1/chat/completions', { messages, response_format: schema });
    assert.ok(['red', 'green'].includes(JSON.parse(json.body.choices[0].message.content)));
    const stop = choice.message.content.slice(4, 8);
    const stopped = await post(server, '/v1/chat/completions', { ...body, stop });
    assert.equal(stopped.body.choices[0].message.content, choice.message.content.split(stop)[0]);
    assert.equal(stopped.body.choices[0].finish_reason, 'stop');
  });

  test('responses have the text of a chat, whole and streamed', async () => {
    const options = { max_output_tokens: 12, temperature: 0 };
    const whole = await post(server, '/v1/responses', { input: prompt, ...options });
    assert.equal(whole.status, 200, JSON.stringify(whole.body));
    const chat = await post(server, '/v1/chat/completions', {
      messages: [{ role: 'user', content: prompt }],
      max_tokens: 12,
      temperature: 0, // prettier-ignore
    });
    const [item] = whole.body.output;
    assert.equal(item.content[0].text, chat.body.choices[0].message.content);
    assert.equal(whole.body.status, 'incomplete');
    assert.deepEqual(whole.body.incomplete_details, { reason: 'max_output_tokens' });
    assert.equal(whole.body.usage.output_tokens, 12);
    const stream = await events('/v1/responses', { input: prompt, ...options, stream: true });
    const parsed = stream.map((data) => JSON.parse(data));
    assert.deepEqual([...new Set(parsed.map(({ type }) => type))], [
      'response.created', 'response.in_progress', 'response.output_item.added', 'response.content_part.added',
      'response.output_text.delta', 'response.output_text.done', 'response.content_part.done',
      'response.output_item.done', 'response.incomplete',
    ]); // prettier-ignore
    assert.deepEqual(parsed.map((event) => event.sequence_number), [...parsed.keys()]); // prettier-ignore
    const deltas = parsed.filter(({ type }) => type === 'response.output_text.delta');
    assert.equal(deltas.map(({ delta }) => delta).join(''), item.content[0].text);
    assert.equal(parsed.at(-1).response.output[0].content[0].text, item.content[0].text);
  });

  test('responses take instructions, items and schemas, and refuse what needs state', async () => {
    const options = { max_output_tokens: 8, temperature: 0 };
    const input = [
      { role: 'developer', content: 'Write.' },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: prompt }] },
      { type: 'reasoning', summary: [] },
      { role: 'assistant', content: [{ type: 'output_text', text: 'there was', annotations: [] }] },
      { role: 'user', content: 'Go on.' },
    ];
    const byItems = await post(server, '/v1/responses', { input, ...options });
    const rest = { instructions: 'Write.', input: input.slice(1), ...options };
    const byInstructions = await post(server, '/v1/responses', rest);
    assert.equal(byItems.status, 200, JSON.stringify(byItems.body));
    assert.equal(byItems.body.output[0].content[0].text, byInstructions.body.output[0].content[0].text); // prettier-ignore
    assert.equal(byItems.body.usage.input_tokens, byInstructions.body.usage.input_tokens);
    const format = { type: 'json_schema', name: 'x', schema: { enum: ['red', 'green'] } };
    const json = await post(server, '/v1/responses', { input: prompt, text: { format } });
    assert.equal(json.body.status, 'completed');
    assert.ok(['red', 'green'].includes(JSON.parse(json.body.output[0].content[0].text)));
    for (const [more, message] of /** @type {[object, RegExp][]} */ ([
      [{ previous_response_id: 'resp_1' }, /keeps no responses/],
      [{ conversation: 'c' }, /keeps no conversations/],
      [{ background: true }, /while the client waits/],
      [{ truncation: 'auto' }, /leaves out no items/],
      [{ tools: [{ type: 'web_search' }] }, /no tools of its own/],
      [
        { input: [{ type: 'message', role: 'user', content: [{ type: 'input_image' }] }] },
        /must be a message/,
      ],
      [
        { input: [{ type: 'function_call', call_id: 'a', name: 'f', arguments: '{' }] },
        /must be JSON/,
      ],
      [{ input: [] }, /at least one item/],
    ])) {
      const reply = await post(server, '/v1/responses', { input: prompt, ...more });
      assert.equal(reply.status, 400, JSON.stringify(more));
      assert.match(reply.body.error.message, message);
    }
  });

  test("answers Anthropic's messages", async () => {
    const body = {
      ...{ max_tokens: 12, temperature: 0, system: 'Write.' },
      messages: [{ role: 'user', content: [{ type: 'text', text: prompt }] }],
    };
    const whole = await post(server, '/v1/messages', body);
    assert.equal(whole.body.type, 'message');
    assert.equal(whole.body.stop_reason, 'max_tokens');
    const stream = await events('/v1/messages', { ...body, stream: true });
    const parsed = stream.map((data) => JSON.parse(data));
    assert.deepEqual(
      [...new Set(parsed.map(({ type }) => type))],
      ['message_start', 'content_block_start', 'content_block_delta', 'content_block_stop', 'message_delta', 'message_stop'], // prettier-ignore
    );
    assert.equal(
      parsed.map((event) => event.delta?.text ?? '').join(''),
      whole.body.content[0].text,
    );
    const count = await post(server, '/v1/messages/count_tokens', body);
    assert.equal(
      count.body.input_tokens,
      whole.body.usage.input_tokens + whole.body.usage.cache_read_input_tokens,
    );
  });

  test('a client that leaves ends its text; others go on', async () => {
    const controller = new AbortController();
    const reply = await fetch(`${server.url}/v1/completions`, {
      ...{ method: 'POST', signal: controller.signal },
      body: JSON.stringify({ prompt, max_tokens: 400, stream: true, logit_bias: { 2: -100 } }),
    });
    await reply.body?.getReader().read();
    controller.abort();
    const next = await post(server, '/v1/completions', { prompt, max_tokens: 3 });
    assert.equal(next.status, 200);
    for (let i = 0; ; i++) {
      const metrics = await (await fetch(`${server.url}/metrics`)).text();
      if (/^wisp_writing 0$/m.test(metrics)) break;
      assert.ok(i < 200, metrics);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  });

  test('says what is wrong with a request', async () => {
    const messages = [{ role: 'user', content: 'x' }];
    for (const [path, body, message] of /** @type {[string, unknown, RegExp][]} */ ([
      ['/v1/completions', {}, /prompt: must be a text/],
      [
        '/v1/completions',
        { prompt: 'x', max_tokens: 0 },
        /max_tokens: must be a whole number from 1/,
      ],
      ['/v1/completions', { prompt: 'x', temperature: -1 }, /temperature/],
      ['/v1/completions', { prompt: 'x', n: 2 }, /one text/],
      ['/v1/completions', { prompt: 'word '.repeat(3000) }, /context/],
      ['/v1/chat/completions', { messages: [] }, /at least one message/],
      ['/v1/chat/completions', { messages, response_format: { type: 'xml' } }, /response_format/],
      ['/v1/chat/completions', { messages, logit_bias: { a: 1 } }, /token ids/],
      ['/v1/chat/completions', { messages, tools: 'all' }, /^tools: must be a list/],
      ['/v1/chat/completions', { messages, stream: 'yes' }, /^stream: must be true or false/],
      ['/v1/completions', { prompt: 'a', echo: true }, /^echo: /],
      ['/v1/completions', { prompt: 'a', suffix: 'b' }, /^suffix: /],
      ['/v1/completions', { prompt: 'a', best_of: 2 }, /^best_of: /],
      ['/v1/completions', { prompt: 'long '.repeat(9000) }, /^prompt: more than 6144 tokens/],
      ['/v1/chat/completions', { messages, tools: [{}], tool_choice: 'required' }, /"auto"/],
      ['/v1/messages', { messages: [{ role: 'system', content: 'x' }] }, /"user" or "assistant"/],
      ['/v1/messages', { messages: [{ role: 'user', content: [{ type: 'image' }] }] }, /blocks/],
      ['/v1/embeddings', { input: 'x' }, /makes no embeddings/],
    ])) {
      const reply = await post(server, path, body);
      assert.equal(reply.status, 400, JSON.stringify(reply.body));
      assert.match(reply.body.error.message, message);
    }
  });
});

/** @param {number[]} row */
function roundTrip(row) {
  return [...Float32Array.from(row)];
}
