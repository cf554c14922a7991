import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { aiCredentialKind, createAiCredential, createAiKey, hashAiCredential } from "./ai-key.ts";

describe("a new key", () => {
  test("creates keys in the documented format, with their kind in the prefix", async () => {
    const { text, lookup, hash } = await createAiKey();
    expect(text).toMatch(/^ttr_ai_[a-z0-9]{12}_[A-Za-z0-9_-]{43}[A-Za-z0-9]{6}$/);
    expect(text.slice(7, 19)).toBe(lookup);
    expect(Buffer.from(hash).toString("hex")).toBe(createHash("sha256").update(text).digest("hex"));
    expect(aiCredentialKind(text)).toBe("key");
    expect(aiCredentialKind((await createAiCredential("app_token")).text)).toBe("app_token");
  });

  test("never creates the same key twice", async () => {
    const texts = await Promise.all(Array.from({ length: 200 }, async () => (await createAiKey()).text));
    expect(new Set(texts).size).toBe(200);
  });

  test("derives a key from the given bytes, first its lookup part and then its secret", async () => {
    const source = () => {
      let calls = 0;
      return (length: number) => new Uint8Array(length).fill(++calls);
    };
    const [one, again] = [
      await createAiCredential("app_token", source()),
      await createAiCredential("app_token", source()),
    ];
    expect(again).toEqual(one);
    expect(aiCredentialKind(one.text)).toBe("app_token");
    expect(one.text).toContain(`_${Buffer.alloc(32, 2).toString("base64url")}`);
  });

  test("hashes a key to the same value in every runtime", async () => {
    expect(Buffer.from(await hashAiCredential("abc")).toString("hex")).toBe(
      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    );
  });
});

describe("invalid keys", () => {
  test("rejects a key with one wrong character, at any position", async () => {
    const { text } = await createAiKey();
    for (let index = 0; index < text.length; index++) {
      const other = text[index] === "a" ? "b" : "a";
      expect(aiCredentialKind(text.slice(0, index) + other + text.slice(index + 1)), `at ${index}`).toBeUndefined();
    }
  });

  test.for(["", "ttr_ai_", "sk-123", "ttr_ai_abcdefghijkl_short", " ", "ttr_ai_\u0000"])(
    "rejects %j as a key",
    (text) => {
      expect(aiCredentialKind(text)).toBeUndefined();
    },
  );

  test("rejects a key with additional characters before or after it", async () => {
    const { text } = await createAiKey();
    for (const each of [` ${text}`, `${text} `, `${text}\n`, text + text]) {
      expect(aiCredentialKind(each)).toBeUndefined();
    }
  });
});
