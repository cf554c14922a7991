import { describe, expect, test } from "vitest";
import { profileSchema } from "./profile.ts";

const parse = (given: { displayName?: string; avatarUrl?: string }) =>
  profileSchema.safeParse({ displayName: "Ada", ...given });

describe("display name", () => {
  test.each([
    ["  Ada \t Lovelace\n", "Ada Lovelace"],
    ["Zoe\u0308", "Zo\u00eb"],
    ["李小龍", "李小龍"],
    ["🦊".repeat(80), "🦊".repeat(80)],
  ])("a display name typed as %j is stored as %j", (typed, kept) => {
    expect(parse({ displayName: typed }).data?.displayName).toBe(kept);
  });

  test.each(["", "   ", "x".repeat(81), "🦊".repeat(81), "a\u0000b", "a\u202eb", "a\u200bb", "\ud800"])(
    "a display name cannot be %j",
    (typed) => {
      expect(parse({ displayName: typed }).success).toBe(false);
    },
  );
});

describe("picture URL", () => {
  const longest = `https://x.test/${"a".repeat(2_048 - "https://x.test/".length)}`;

  test.each([
    ["https://x.test/a.png", "https://x.test/a.png"],
    [" HTTPS://X.test ", "https://x.test/"],
    [longest, longest],
  ])("the picture URL %s is stored as %s", (typed, kept) => {
    expect(parse({ avatarUrl: typed }).data?.avatarUrl).toBe(kept);
  });

  test.each([
    "http://x.test/a.png",
    "javascript:alert(1)",
    "data:image/png;base64,AAAA",
    "https://user:password@x.test/",
    "https://user@x.test/",
    "//x.test/a.png",
    "x.test/a.png",
    `${longest}a`,
  ])("a picture URL cannot be %s", (typed) => {
    expect(parse({ avatarUrl: typed }).success).toBe(false);
  });

  test("a picture URL is optional", () => {
    expect(parse({}).data).toEqual({ displayName: "Ada" });
  });
});
