import { describe, expect, test } from "vitest";
import { type MfaFacts, readRequiredMfaPolicy, requiredMfaState, satisfiesRequiredMfa } from "./required-mfa-oracle.ts";
import file from "./required-mfa-vectors.json" with { type: "json" };

type Vector = Omit<MfaFacts, "appMetadata" | "currentSecond"> & {
  name: string;
  policy?: unknown;
  state: string;
  satisfied: boolean;
};
const vectors = file.vectors as Vector[];
const appMetadataOf = (vector: Vector) => ("policy" in vector ? { platform_required_mfa: vector.policy } : {});

describe("the TypeScript MFA rule with the test vectors of the SQL rule", () => {
  test.each(vectors)("the TypeScript MFA rule matches the test vector: $name", (vector) => {
    const appMetadata = appMetadataOf(vector);
    expect(requiredMfaState(appMetadata)).toBe(vector.state);
    expect(satisfiesRequiredMfa({ ...vector, appMetadata, currentSecond: file.currentSecond })).toBe(vector.satisfied);
  });

  test("the MFA rule has at least 60 test vectors with unique names, which cover all four states", () => {
    expect(vectors.length).toBeGreaterThanOrEqual(60);
    expect(new Set(vectors.map(({ name }) => name)).size).toBe(vectors.length);
    expect(new Set(vectors.map(({ state }) => state)).size).toBe(4);
  });
});

test("an MFA policy is parsed as valid, absent or unreadable", () => {
  const policy = { version: 1, required: true, boundary: 5, recovery: "none", generation: 2 };
  expect(readRequiredMfaPolicy({ platform_required_mfa: policy })).toEqual({ ...policy, primaryBoundary: null });
  expect(readRequiredMfaPolicy({})).toBeNull();
  expect(readRequiredMfaPolicy(null)).toBeNull();
  expect(readRequiredMfaPolicy({ platform_required_mfa: null })).toBe("malformed");
});
