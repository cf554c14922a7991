import { expect, test } from "vitest";
import { readEventData } from "../answers/sse.ts";
import { maxStoredSize } from "../runs/captured-content.ts";
import { createAssembly } from "./assembly.ts";
import { readChat } from "./request.ts";
import { replayChat } from "./surface.ts";

const entry = (token: string) => ({ token, logprob: -0.5, bytes: [...token].map((letter) => letter.charCodeAt(0)) });
const chunk = (index: number, delta: object, logprobs: object | null, finish_reason: string | null = null) => ({
  id: "chatcmpl-1",
  object: "chat.completion.chunk",
  created: 7,
  model: "m",
  choices: [{ index, delta, logprobs, finish_reason }],
});

test("stores and replays a streamed chat with its log probabilities", () => {
  const assembly = createAssembly();
  for (const each of [
    chunk(0, { role: "assistant", content: "" }, null),
    chunk(0, { content: "He" }, { content: [entry("H"), entry("e")], refusal: null }),
    chunk(1, { refusal: "No" }, { content: null, refusal: [entry("No")] }),
    chunk(0, { content: "y" }, { content: [entry("y")] }),
    chunk(0, {}, null, "stop"),
    chunk(1, {}, null, "stop"),
  ]) {
    assembly.take(each);
  }
  const kept = [
    { content: ["H", "e", "y"].map(entry), refusal: null },
    { content: null, refusal: [entry("No")] },
  ];
  const { value } = assembly.answer() ?? {};
  expect(value).toMatchObject({ choices: kept.map((logprobs) => ({ logprobs })) });

  const asked = readChat({ model: "m", messages: [{ role: "user", content: "x" }], stream: true, logprobs: true }, 90);
  const [first = ""] = replayChat({ ...value, platform: { usage: {} } }, asked).split("\n\n");
  expect(JSON.parse(readEventData(first)).choices).toMatchObject(kept.map((logprobs) => ({ logprobs })));
});

test("keeps logprobs null if the stream has none", () => {
  const assembly = createAssembly();
  assembly.take(chunk(0, { content: "x" }, null, "stop"));
  expect(assembly.answer()?.value).toMatchObject({ choices: [{ logprobs: null }] });
});

test("leaves out oversized log probabilities so that the answer can be stored", () => {
  const assembly = createAssembly();
  const many = Array.from({ length: 100 }, () => ({ ...entry("x"), top_logprobs: Array(20).fill(entry("y")) }));
  const bytes = JSON.stringify(many).length;
  for (let n = 0; n < (3 * maxStoredSize) / bytes; n++) assembly.take(chunk(0, { content: "x" }, { content: many }));
  const { value, texts } = assembly.answer() ?? {};
  expect(JSON.stringify(value).length).toBeLessThan(1_000);
  expect(value).toMatchObject({ choices: [{ logprobs: null }] });
  expect(texts?.()).toEqual([expect.stringMatching(/^x+$/)]);
});
