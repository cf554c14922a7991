import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type InProcessGateway, openGateway } from "../../../tests/gateway/in-process.ts";
import { type Account, createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";
import { expectTruth, leaveOnceAsked } from "../../../tests/gateway/truth.ts";
import { add, formatDecimal, parseDecimal } from "../../_shared/decimal.ts";

let tenant: GatewayTenant;
/** A gateway whose provider charges in full even if the client leaves. */
let draining: InProcessGateway;
beforeAll(async () => {
  tenant = await createGatewayTenant();
  draining = await openGateway({ AI_PROVIDER_DEMO_ON_LEAVE: "drain" });
});
afterAll(async () => {
  await draining.close();
  await tenant.close();
});

const newId = () => `it-${randomUUID()}`;

/** The body of the same call on each endpoint. */
const bodies = {
  "/chat/completions": (model: string, prompt: string) => ({ model, messages: [{ role: "user", content: prompt }] }),
  "/responses": (model: string, input: string) => ({ model, input }),
} as const;
type Path = keyof typeof bodies;
type Asked = { path: Path; model: string; stream: boolean; prompt?: string };

function post({ path, model, stream, prompt = "hello there" }: Asked, requestId: string, signal?: AbortSignal) {
  return fetch(tenant.client.baseURL + path, {
    method: "POST",
    headers: { authorization: `Bearer ${tenant.key}`, "content-type": "application/json", "x-request-id": requestId },
    body: JSON.stringify({ ...bodies[path](model, prompt), stream }),
    signal,
  });
}

/** Makes a call, reads the answer to its end, and returns the call's run, charge and provider records. */
async function account(asked: Asked): Promise<Account> {
  const requestId = newId();
  await (await post(asked, requestId)).text();
  return tenant.accountOf(requestId);
}

/** Makes a streamed call and disconnects as soon as the stream contains the given text. */
async function leaveAt(asked: Asked, until: string): Promise<Account> {
  const requestId = newId();
  const leaving = new AbortController();
  const response = await post(asked, requestId, leaving.signal);
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ""; ; ) {
    text += (await reader?.read())?.value ?? "";
    if (text !== "" && text.includes(until)) break;
  }
  leaving.abort();
  return tenant.accountOf(requestId);
}

/** Expects that an estimate is charged and stays within its reservation. */
function expectGuess({ run, charged }: Account): void {
  expect(Number(charged)).toBeGreaterThan(0);
  expect(Number(charged)).toBeLessThanOrEqual(Number(run.reserved_credits));
  expect(charged).toBe(run.billed_credits);
}

const surfaces = Object.keys(bodies) as Path[];
const ways = surfaces.flatMap((path) => [true, false].map((stream) => ({ path, stream })));

describe.for(ways)("metering on $path, streamed $stream", ({ path, stream }) => {
  test.for(["demo-chat", "demo-cached", "demo-reasoning", "demo-length", "demo-filtered"])(
    "charges the provider's reported usage to the last digit: %s",
    async (model) => {
      const metered = await account({ path, stream, model });
      expect(metered.run).toMatchObject({ status: "succeeded", usage_source: "provider", http_status: 200 });
      expectTruth(metered);
    },
  );

  test.for(["demo-no-usage", "demo-zero-usage"])(
    "charges an estimate if the provider reports no usage, or zeros for a call with content: %s",
    async (model) => {
      const metered = await account({ path, stream, model });
      expect(metered.run).toMatchObject({ status: "succeeded", usage_source: "provider_partial" });
      expectGuess(metered);
    },
  );

  test.for(["demo-cut", "demo-garbage"])(
    "charges only what a provider streamed before it broke off: %s",
    async (model) => {
      const metered = await account({ path, stream, model, prompt: "[[words=20 pace=5]]" });
      expect(metered.run).toMatchObject({ status: "failed", error_code: "provider_error" });
      // A non-streamed answer that is cut off has no usable output, so it is free.
      expect(metered.run.usage_source).toBe(stream ? "estimated_partial" : "unavailable");
      if (stream) expectGuess(metered);
      else expect(metered.charged).toBe("0.00000000");
    },
  );

  test.for(["demo-error-400", "demo-error-429", "demo-error-500", "demo-redirect"])(
    "charges nothing if the provider refuses the call: %s",
    async (model) => {
      const { run, charged } = await account({ path, stream, model });
      expect(run).toMatchObject({ status: "failed", usage_source: "unavailable" });
      expect(charged).toBe("0.00000000");
    },
  );
});

describe.for(surfaces)("a client that disconnects from a stream on %s", (path) => {
  const paced: Asked = { path, model: "demo-paced", stream: true, prompt: "[[words=10 pace=80]]" };
  // Long enough that the answer is still being written when a busy machine notices that the client left.
  const long: Asked = { ...paced, prompt: "[[words=100 pace=80]]" };
  const last = path === "/responses" ? "output_text.done" : '"finish_reason":"stop"';

  test.for([
    ["at its first byte", ""],
    ["in the middle", "word3"],
  ])(
    "if the client leaves a stream %s, charges an estimate and cancels the provider's call",
    async ([, until = ""]) => {
      const metered = await leaveAt(long, until);
      expect(metered.run).toMatchObject({ status: "cancelled", http_status: 499, usage_source: "estimated_partial" });
      expectGuess(metered);
      expect(metered.truth).toMatchObject([{ aborted: true }]);
      // The estimate is close to what the provider had written, allowing for output in transit.
      expect(Math.abs(metered.run.output_tokens - (metered.truth[0]?.usage.output ?? 0))).toBeLessThanOrEqual(4);
    },
  );

  test("charges the provider's usage or an estimate if the client leaves near the end of a stream", async () => {
    const metered = await leaveAt(paced, last);
    const { status, usage_source } = metered.run;
    // If the client leaves after the usage has arrived but before the stream ends, the run is cancelled but metered
    // exactly.
    expect(["succeeded provider", "cancelled provider", "cancelled estimated_partial"]).toContain(
      `${status} ${usage_source}`,
    );
    if (usage_source === "provider") expectTruth(metered);
    else expectGuess(metered);
  });

  test("charges only the input if the client leaves before a stream's first byte", {
    tags: "needs-stack-server",
  }, async () => {
    const requestId = newId();
    const leaving = new AbortController();
    const call = post({ ...paced, prompt: "[[first=5000]]" }, requestId, leaving.signal);
    leaveOnceAsked(tenant, { requestId, leaving });
    await expect(call).rejects.toThrow();
    const metered = await tenant.accountOf(requestId);
    expect(metered.run).toMatchObject({ status: "cancelled", usage_source: "estimated_partial", output_tokens: 0 });
    expectGuess(metered);
    expect(metered.truth).toMatchObject([{ aborted: true }]);
  });
});

test("a stream that reports growing usage is charged the last reported usage if the client leaves", async () => {
  const prompt = "[[words=100 pace=80]]";
  const asked: Asked = { path: "/chat/completions", model: "demo-usage-cumulative", stream: true, prompt };
  const { run, truth, charged } = await leaveAt(asked, "word3");
  expect(run).toMatchObject({
    status: "cancelled",
    usage_source: "estimated_partial",
    input_tokens: truth[0]?.usage.input,
  });
  expect(run.output_tokens).toBeGreaterThan(0);
  expect(charged).toBe(run.billed_credits);
});

describe("an abandoned call to a provider that bills the whole answer", () => {
  test.for([
    [true, "[[words=12 pace=100]]"],
    [true, "[[first=1500]]"],
    [false, "[[first=1500]]"],
  ] as const)(
    "an abandoned call is charged for the whole answer if the provider bills the whole answer: streamed %s, prompt %s",
    { tags: "needs-stack-server" },
    async ([stream, content]) => {
      const requestId = newId();
      const leaving = new AbortController();
      const { completions } = draining.clientOf(tenant.key).chat;
      const call = completions.create(
        { model: "demo-paced", messages: [{ role: "user", content }], stream },
        { headers: { "x-request-id": requestId }, signal: leaving.signal },
      );
      if (content.includes("first")) leaveOnceAsked(tenant, { requestId, leaving });
      const left = call.then(async (answer) => {
        if (Symbol.asyncIterator in answer) for await (const _ of answer) leaving.abort();
      });
      await left.catch(() => {});
      await draining.settled();
      const metered = await tenant.accountOf(requestId);
      expect(metered.run).toMatchObject({ status: "cancelled", http_status: 499, usage_source: "provider" });
      expect(metered.truth).toMatchObject([{ aborted: false }]);
      expectTruth(metered);
    },
  );
});

test("after all metered calls, the tenant's balance and ledger agree to the last digit", async () => {
  const running = "select count(*)::int as n from ai.runs where workspace_id = $1 and status = 'running'";
  await expect.poll(async () => (await tenant.db.query(running, [tenant.workspaceId]))[0]?.n).toBe(0);
  const { granted, balance, ledger, runs, reserved } = await tenant.books();
  expect(balance).toBe(ledger);
  expect(reserved).toBe("0.00000000");
  expect(formatDecimal(add(parseDecimal(balance), parseDecimal(runs)))).toBe(formatDecimal(parseDecimal(granted)));
});
