import { expect, test } from "vitest";
import { isExternalId, isLabel, newRequestId } from "./labels.ts";

test("accepts labels of 1 to 128 allowed characters", () => {
  expect(isLabel("")).toBe(false);
  expect(isLabel("a")).toBe(true);
  expect(isLabel("A-z.0_9:".repeat(16))).toBe(true);
  expect(isLabel("a".repeat(129))).toBe(false);
});

test.for(["a b", "a/b", "ä", "a\n", "a\u0000", "a,b"])("rejects %j as a label", (text) => {
  expect(isLabel(text)).toBe(false);
});

test("accepts provider ids of 1 to 256 Unicode characters", () => {
  expect(isExternalId("")).toBe(false);
  expect(isExternalId("a")).toBe(true);
  expect(isExternalId("a".repeat(256))).toBe(true);
  expect(isExternalId("a".repeat(257))).toBe(false);
  expect(isExternalId("😀".repeat(256))).toBe(true);
  expect(isExternalId("😀".repeat(257))).toBe(false);
});

test.for([
  "arn:aws:bedrock:eu-central-1:123456789012:application-inference-profile/a1b2",
  "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/Größe (EU) & Co",
  "Amazon Elastic Compute Cloud - Compute",
  "0X0X0X-0X0X0X-0X0X0X",
  "wrkspc_01/東京, Vertrieb #2",
])("accepts %j as a provider's id", (text) => {
  expect(isExternalId(text)).toBe(true);
});

test.for([" a", "a ", "a\tb", "a\nb", "a\u0000", "a\u0085b", "a\u2028b", "\u00a0a", "a\u3000", "\ufeffa", "a\ud800b"])(
  "rejects %j as a provider's id",
  (text) => {
    expect(isExternalId(text)).toBe(false);
  },
);

test("creates request ids that are valid labels", () => {
  expect(isLabel(newRequestId())).toBe(true);
});
