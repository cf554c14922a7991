import { expect, test } from "vitest";
import { createNonce } from "./nonce.ts";

test("each of many nonces is of 128 bits, and another one", () => {
  const nonces = Array.from({ length: 1_000 }, createNonce);
  for (const nonce of nonces) expect(Buffer.from(nonce, "base64")).toHaveLength(16);
  expect(new Set(nonces).size).toBe(nonces.length);
});
