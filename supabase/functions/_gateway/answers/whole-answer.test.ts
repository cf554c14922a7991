import { describe, expect, test, vi } from "vitest";
import type { AdmittedCall } from "../calls/surface.ts";
import type { Chat } from "../chat/request.ts";
import { chatFormat } from "../chat/surface.ts";
import type { ProviderAnswer } from "../providers/provider-answer.ts";
import { ProviderFailure } from "../providers/provider-failure.ts";
import { readWholeAnswer } from "./whole-answer.ts";

/** Returns a provider that writes the given pieces and then ends its answer or stays silent. */
function answering(pieces: readonly Uint8Array[], then: "ends" | "is silent" = "ends") {
  const left = [...pieces];
  const read = vi.fn(async () => left.shift() ?? (then === "ends" ? undefined : new Promise<never>(() => {})));
  const cancel = vi.fn();
  return { route: { position: 1 }, read, cancel } as unknown as ProviderAnswer & { cancel: typeof cancel };
}

function readChat(answer: ProviderAnswer) {
  const usageLimits = { contextWindow: 1_000, outputLimit: 10, choices: 1 };
  const inputEstimate = { input_tokens: 5, output_tokens: 0 };
  const call = { usageLimits, inputEstimate, request: new Request("http://localhost") };
  return readWholeAnswer(answer, call as unknown as AdmittedCall<Chat>, chatFormat);
}

const text = JSON.stringify({
  choices: [{ index: 0, message: { role: "assistant", content: "é€😀\uFEFF" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
});
const bytes = new TextEncoder().encode(text);
const marked = new Uint8Array([0xef, 0xbb, 0xbf, ...bytes]);

describe("Answers in UTF-8", () => {
  test("an answer reads the same wherever it is split into chunks, with or without a byte order mark", async () => {
    for (const whole of [bytes, marked]) {
      for (let at = 0; at <= whole.length; at++) {
        const pieces = [whole.slice(0, at), whole.slice(at)].filter((piece) => piece.length > 0);
        expect((await readChat(answering(pieces))).text).toBe(text);
      }
      const singly = [...whole].map((byte) => new Uint8Array([byte]));
      expect((await readChat(answering(singly))).text).toBe(text);
    }
  });

  test("keeps a byte order mark within an answer's text, even at the start of a chunk", async () => {
    const at = Buffer.from(bytes).indexOf(Buffer.from("\uFEFF"));
    expect((await readChat(answering([bytes.slice(0, at), bytes.slice(at)]))).text).toBe(text);
  });
});

describe("Answers that are not UTF-8", () => {
  const wrong = new Uint8Array([0x7b, 0x22, 0xff, 0xfe]);
  const cut = bytes.slice(0, Buffer.from(bytes).indexOf(Buffer.from("😀")) + 2);

  test.for<[string, readonly Uint8Array[], "ends" | "is silent"]>([
    ["in its first chunk, before the rest arrives", [wrong], "is silent"],
    ["in its second chunk", [bytes.slice(0, 20), wrong], "is silent"],
    ["after a truncated character", [cut, wrong], "is silent"],
    ["because it ends inside a character", [cut], "ends"],
    ["because its second chunk ends inside a character", [bytes.slice(0, 20), cut.slice(20)], "ends"],
  ])("immediately rejects an answer that is not UTF-8: %s", async ([, pieces, then]) => {
    const answer = answering(pieces, then);
    await expect(readChat(answer)).rejects.toThrow(ProviderFailure);
    expect(answer.cancel).toHaveBeenCalledOnce();
    expect((await readChat(answering([bytes]))).text).toBe(text);
  });
});

describe("Output of an answer without usage", () => {
  const entry = { token: "Hello", logprob: -0.1, bytes: [72, 101], top_logprobs: [] };
  const saying = (content: string, rest: object = {}, choice: object = {}) =>
    new TextEncoder().encode(JSON.stringify({ choices: [{ index: 0, message: { content }, ...choice }], ...rest }));
  const readUse = async (bytes: Uint8Array) => (await readChat(answering([bytes]))).use;

  test("if an answer states no usage, its output is estimated from its text, ignoring log probabilities", async () => {
    const estimated = { basis: "guess", usage: { input_tokens: 5, output_tokens: 3 } };
    expect(await readUse(saying("Hello there"))).toMatchObject(estimated);
    const logprobs = { content: Array(50).fill(entry), refusal: null };
    expect(await readUse(saying("Hello there", {}, { logprobs }))).toMatchObject(estimated);
  });

  test("estimates an answer's output if the stated output is zero, and keeps a stated input count", async () => {
    const usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
    const estimated = { basis: "guess", usage: { input_tokens: 5, output_tokens: 3 } };
    expect(await readUse(saying("Hello there", { usage }))).toMatchObject(estimated);
    expect(await readUse(saying("Hello there", { usage: { ...usage, prompt_tokens: 7 } }))).toMatchObject({
      basis: "guess",
      usage: { input_tokens: 7, output_tokens: 3 },
    });
    expect(await readUse(saying("", { usage }))).toMatchObject({ basis: "final", usage: { input_tokens: 0 } });
  });

  test("marks an estimated output of more than twice the output limit as above the limit", async () => {
    expect(await readUse(saying("x".repeat(80)))).not.toHaveProperty("marks");
    expect(await readUse(saying("x".repeat(81)))).toMatchObject({ marks: ["above_output_limit"] });
  });
});

test("an empty answer is a provider failure", async () => {
  await expect(readChat(answering([]))).rejects.toThrow(ProviderFailure);
});
