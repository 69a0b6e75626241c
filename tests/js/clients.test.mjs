// SPDX-License-Identifier: Apache-2.0
// wisp serve and wisp-engine serve as the official clients of OpenAI and Anthropic see them. python/tests/test_clients.py has
// more of it.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { serve, skip, started } from './serve-program.mjs';
import { ROOT, floatsOf, wisp } from './support.mjs';

/** @typedef {import('./serve-program.mjs').Server} Server */

const KEY = 'key of the test';
const env = { WISP_API_KEY: KEY };
const TEXTS = ['cats are nice', 'Ein Satz mit „Zeichen“ 😀', ''];
const PROMPT = 'Once upon a time';
const SCHEMA = {
  type: 'object',
  properties: { color: { enum: ['red', 'green'] }, good: { type: 'boolean' } },
  required: ['color', 'good'],
  additionalProperties: false,
};

/** @param {Server} server @param {string} [apiKey] */
const openai = (server, apiKey = KEY) => new OpenAI({ baseURL: `${server.url}/v1`, apiKey, maxRetries: 0 }); // prettier-ignore

/** @type {[string, () => Promise<Server>, false | string][]} */
const SERVERS = [
  ['wisp serve', () => serve(['--name', 'small', '--portable'], env), skip],
  [
    'wisp-engine serve',
    () => started(process.execPath, [`${ROOT}js/cli.js`, 'serve', '--port', '0', '-t', '1', '--name', 'small', '--portable'], { ...process.env, ...env }), // prettier-ignore
    false,
  ],
];
for (const [name, start, isSkipped] of SERVERS)
  describe(`${name}, asked by openai`, { skip: isSkipped }, () => {
    /** @type {Server} */
    let server;
    before(async () => (server = await start()));
    after(() => server?.stop());

    test('gives the rows of the program', async () => {
      const lines = TEXTS.map((text) => JSON.stringify(text)).join('\n');
      const args = ['embed', '--portable', '--input', 'ndjson', '--format', 'f32'];
      const rows = [...floatsOf(wisp(args, lines).bytes)];
      const client = openai(server);
      // The client asks for base64 unless told otherwise, and decodes it.
      for (const more of /** @type {{ encoding_format?: 'float' }[]} */ ([
        {},
        { encoding_format: 'float' },
      ])) {
        const made = await client.embeddings.create({ model: 'small', input: TEXTS, ...more });
        assert.deepEqual([...Float32Array.from(made.data.flatMap((row) => row.embedding))], rows);
      }
      const short = await client.embeddings.create({ model: 'small', input: 'a', dimensions: 32 });
      assert.equal(short.data[0].embedding.length, 32);
      assert.deepEqual((await client.models.list()).data.map(({ id }) => id), ['small']); // prettier-ignore
    });

    test('errors are those of the client', async () => {
      const ask = (/** @type {object} */ body, key = KEY) =>
        openai(server, key).embeddings.create({ model: 'small', input: 'a', ...body });
      await assert.rejects(ask({ dimensions: 1000 }), OpenAI.BadRequestError);
      await assert.rejects(ask({}, 'another'), OpenAI.AuthenticationError);
      await assert.rejects(ask({ input: 'word '.repeat(400) }), { status: 413 });
      await assert.rejects(openai(server).files.list(), OpenAI.NotFoundError);
    });
  });

describe('wisp serve writes for', { skip }, () => {
  /** @type {Server} */
  let server;
  const model = 'writer';
  const args = ['-m', `${ROOT}models/wisp-stories.gguf`, '--chat-format', 'plain', '--name', model];
  before(async () => {
    server = await serve([...args, '--also', `small=${ROOT}models/wisp-default.gguf`], env);
  });
  after(() => server?.stop());

  test('openai', async () => {
    const client = openai(server);
    /** @type {OpenAI.ChatCompletionMessageParam[]} */
    const messages = [{ role: 'user', content: PROMPT }];
    const asked = { model, messages, max_tokens: 12, temperature: 0 };
    const whole = await client.chat.completions.create(asked);
    const { content } = whole.choices[0].message;
    let streamed = '';
    for await (const chunk of await client.chat.completions.create({ ...asked, stream: true }))
      streamed += chunk.choices[0]?.delta.content ?? '';
    assert.equal(streamed, content);
    const parsed = await client.chat.completions.parse({
      ...{ model, messages, temperature: 0 },
      response_format: { type: 'json_schema', json_schema: { name: 'answer', schema: SCHEMA, strict: true } }, // prettier-ignore
    });
    assert.ok(['red', 'green'].includes(/** @type {any} */ (parsed.choices[0].message.parsed).color)); // prettier-ignore
    const response = await client.responses.create({ model, input: PROMPT, max_output_tokens: 12, temperature: 0 }); // prettier-ignore
    assert.equal(response.output_text, content);
    const text = await client.completions.create({ model, prompt: PROMPT, max_tokens: 12, temperature: 0 }); // prettier-ignore
    assert.equal(text.usage?.completion_tokens, 12);
    await assert.rejects(client.chat.completions.create({ ...asked, model: 'gpt' }), OpenAI.NotFoundError); // prettier-ignore
    const stream = await client.completions.create({ model, prompt: PROMPT, max_tokens: 400, stream: true, logit_bias: { 2: -100 } }); // prettier-ignore
    for await (const chunk of stream) {
      assert.ok(chunk.choices[0].text);
      break; // which closes the connection
    }
    const headers = { authorization: `Bearer ${KEY}` };
    for (let i = 0; ; i++) {
      const metrics = await (await fetch(`${server.url}/metrics`, { headers })).text();
      if (/^wisp_writing 0$/m.test(metrics)) break;
      assert.ok(i < 200, metrics);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  });

  test('anthropic', async () => {
    const client = new Anthropic({ baseURL: server.url, apiKey: KEY, maxRetries: 0 });
    /** @type {Anthropic.MessageParam[]} */
    const messages = [{ role: 'user', content: PROMPT }];
    const asked = { model, system: 'Write.', messages, temperature: 0 };
    const whole = await client.messages.create({ ...asked, max_tokens: 12 });
    assert.equal(whole.stop_reason, 'max_tokens');
    const stream = client.messages.stream({ ...asked, max_tokens: 12 });
    assert.equal((await stream.finalMessage()).usage.output_tokens, 12);
    const { input_tokens } = await client.messages.countTokens(asked);
    assert.equal(input_tokens, whole.usage.input_tokens + (whole.usage.cache_read_input_tokens ?? 0)); // prettier-ignore
    const parsed = await client.messages.parse({
      ...{ ...asked, max_tokens: 200 },
      output_config: { format: { type: 'json_schema', schema: SCHEMA } },
    });
    const [block] = parsed.content;
    assert.ok(block.type === 'text' && 'color' in JSON.parse(block.text));
    await assert.rejects(client.messages.create({ ...asked, model: 'claude', max_tokens: 8 }), Anthropic.NotFoundError); // prettier-ignore
  });
});
