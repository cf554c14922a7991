import { describe, expect, test } from "vitest";
import type { AdmittedCall } from "../calls/surface.ts";
import { GatewayError } from "../http/errors.ts";
import { ProviderFailure } from "../providers/provider-failure.ts";
import type { RunEnd } from "../runs/run.ts";
import { settleFailure } from "./answer-call.ts";

/**
 * Settles a failed call. Returns the client's error, whether the client should retry, and whether the idempotency key
 * can be used again.
 */
function failed(error: unknown, { dispatched, charged = false }: { dispatched: boolean; charged?: boolean }) {
  const ends: RunEnd[] = [];
  const open = {
    dispatched,
    hasCharged: () => charged,
    end(end: RunEnd) {
      ends.push(end);
      return { usage: {} };
    },
    progress: {},
  };
  const clientSignal = new AbortController().signal;
  const refusal = settleFailure(error, { open, clientSignal, request: {}, surface: {} } as unknown as AdmittedCall);
  return { refusal, again: refusal.options.headers?.["x-should-retry"] ?? "true", keyUnused: ends[0]?.keyUnused };
}

describe("A failed call may be retried only if nothing was charged", () => {
  const lost = new ProviderFailure("connection_lost", { mayHaveCharged: true });
  const refused = new ProviderFailure("server_error", { mayHaveCharged: false });
  const busy = new GatewayError("service_unavailable");
  const defect = new TypeError("a defect of ours");

  test.for<[string, unknown, { dispatched: boolean; charged?: boolean }, number, string, boolean]>([
    ["a lost answer", lost, { dispatched: true }, 502, "false", false],
    ["a refusal", refused, { dispatched: true }, 502, "true", true],
    ["a refusal after answered calls", refused, { dispatched: true, charged: true }, 502, "false", true],
    ["no capacity before the provider is called", busy, { dispatched: false }, 503, "true", true],
    ["no capacity between two calls", busy, { dispatched: false, charged: true }, 503, "false", true],
    ["a defect before the provider is called", defect, { dispatched: false }, 500, "true", true],
    ["a defect after the provider is called", defect, { dispatched: true }, 500, "false", false],
  ])(
    "after a failed call, the status, the retry header and the reuse of the idempotency key are correct: %s",
    ([, error, call, status, again, keyUnused]) => {
      expect(failed(error, call)).toMatchObject({ refusal: { status }, again, keyUnused });
    },
  );

  test("reports a defect as internal_error and keeps its cause for the log", () => {
    const { refusal } = failed(defect, { dispatched: true });
    expect([refusal.code, refusal.message, refusal.cause]).toEqual([
      "internal_error",
      "The gateway had an error.",
      defect,
    ]);
  });
});
