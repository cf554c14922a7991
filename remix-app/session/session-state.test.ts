import { expect, test } from "vitest";
import { fetchSessionState } from "./session-state.ts";

const facts = {
  alive: true,
  sessionId: "4b0f3ad6-19a7-4a35-9d0d-6c2f4b0a7e11",
  aal: "aal1",
  user: {
    id: "d8c2b4f0-5a1e-4c55-8f0e-2f3b1c9a7d10",
    email: "ada@example.test",
    displayName: null,
    avatarUrl: null,
    banned: false,
    deleted: false,
  },
  hasVerifiedFactor: false,
  policy: { state: "optional", required: false, satisfied: true },
  consoleRole: null,
};
const workspace = { id: "0c9a8f52-7a0e-4a1c-9f5b-52a7a3c1d9ee", withFrame: true };

/** Fetches a state from a Data API that answers each function as given. @returns the state and the called functions */
async function fetchFrom(answers: Record<string, () => Response>) {
  const called: string[] = [];
  const state = await fetchSessionState("token", {
    supabaseUrl: "http://127.0.0.1",
    publishableKey: "key",
    approvalProof: null,
    workspace,
    fetch: async (url) => {
      const name = String(url).split("/").at(-1) ?? "";
      called.push(name);
      return answers[name]?.() ?? Response.json({}, { status: 404 });
    },
  });
  return { state, called };
}

const together = "workspace_session_state";
const alone = "session_state";

test("reads the workspace together with the state, also if the visitor is not a member", async () => {
  for (const workspaceRead of [{ workspace: {} }, null]) {
    const { state, called } = await fetchFrom({ [together]: () => Response.json({ ...facts, workspaceRead }) });
    expect(called).toEqual([together]);
    expect(state).toMatchObject({ status: "alive", workspace: { ...workspace, read: workspaceRead } });
  }
});

test.each([
  ["is missing", () => Response.json({}, { status: 404 })],
  ["fails", () => Response.json({}, { status: 500 })],
  [
    "does not answer in time",
    () => {
      throw new DOMException("timeout", "TimeoutError");
    },
  ],
])("reads the state alone if the function with the workspace %s", async (_, fail) => {
  const { state, called } = await fetchFrom({ [together]: fail, [alone]: () => Response.json(facts) });
  expect(called).toEqual([together, alone]);
  expect(state).toMatchObject({ status: "alive", facts: { sessionId: facts.sessionId } });
  expect(state).not.toHaveProperty("workspace");
});

test("reports a refused token at once, and an outage only if the state alone fails too", async () => {
  const refused = await fetchFrom({ [together]: () => new Response(null, { status: 401 }) });
  expect(refused).toEqual({ state: { status: "refused" }, called: [together] });
  expect((await fetchFrom({})).state).toEqual({ status: "unavailable" });
});
