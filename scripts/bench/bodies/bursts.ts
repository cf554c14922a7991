/** A burst of large calls: how many, over how long, and the body of each. */
export type Burst = { name: string; count: number; withinMs: number; path: string; body: Buffer };

const mebibyte = 1024 * 1024;
const largestBytes = 8 * mebibyte;

/** The time over which the calls of each burst are sent. */
const withinMs = 40;

/** Returns a chat as a coding agent sends it, in which every message has a character outside Latin-1. */
function agentBody(bytes: number, model = "demo-chat"): Buffer {
  const line = "  const result = await store.read(path); // → returns the parsed file\n";
  const message = { role: "user", content: line.repeat(30) };
  const count = Math.floor(bytes / (Buffer.byteLength(JSON.stringify(message)) + 1)) - 1;
  return Buffer.from(JSON.stringify({ model, max_tokens: 64, messages: Array(count).fill(message) }));
}

function imageBody(bytes: number): Buffer {
  const url = `data:image/png;base64,${"iVBORw0KGgoAAAAN".repeat(Math.floor((bytes - 256) / 16))}`;
  const content = [
    { type: "text", text: "What is this?" },
    { type: "image_url", image_url: { url } },
  ];
  return Buffer.from(JSON.stringify({ model: "demo-chat", max_tokens: 64, messages: [{ role: "user", content }] }));
}

export const bursts: readonly Burst[] = [
  { name: "40 × 1 MiB", count: 40, body: agentBody(mebibyte) },
  { name: "100 × 300 KiB", count: 100, body: agentBody(300 * 1024) },
  { name: "20 images of 7 MiB", count: 20, body: imageBody(7 * mebibyte) },
  { name: "40 × 1 MiB, first route fails", count: 40, body: agentBody(mebibyte, "demo-fallback") },
  { name: "40 × 8 MiB", count: 40, body: agentBody(largestBytes) },
].map((burst) => ({ ...burst, withinMs, path: "/chat/completions" }));
