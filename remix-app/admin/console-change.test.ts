import { expect, test } from "vitest";
import { startDataApi } from "../testing/data-api-answers.ts";
import { applyConsoleChange, isConfirmed, reasonSchema } from "./console-change.ts";

test.each([
  ["ada@example.com", "Ada@Example.com"],
  ["Orbit two", "Orbit  two"],
])("the typed text %j confirms the name %j", (typed, name) => {
  expect(isConfirmed(typed, name)).toBe(true);
});

test.each([
  ["Orbittwo", "Orbit two"],
  ["ada@example.co", "ada@example.com"],
  ["", ""],
  ["", "\u00a0"],
])("the typed text %j does not confirm the name %j", (typed, name) => {
  expect(isConfirmed(typed, name)).toBe(false);
});

test.each([
  ["Ticket 4711\nSecond line", true],
  ["\u200b\u2060", false],
  ["\u3164", false],
])("accepts the reason %j: %j", (reason, success) => {
  expect(reasonSchema.safeParse(reason).success).toBe(success);
});

test("a refusal says which part of a change it is about", async () => {
  const last = { actorEmail: "ada@example.com", at: "2026-11-30T12:00:00Z" };
  const refusals = { taken: { status: 409, message: "Taken." } } as const;
  const admin = { id: "admin", email: "admin@example.com", sessionId: "session" };
  for (const [answer, message] of [
    [{ refused: "taken", part: "routes.1" }, "Taken."],
    [{ refused: "conflict", part: "routes.1", last }, "ada@example.com changed it"],
    [{ refused: "new", part: "routes.1" }, "Nothing was changed."],
  ] as const) {
    const { context, close } = await startDataApi({ change_it: answer });
    const result = await applyConsoleChange(context, { admin, name: "change_it", change: {}, refusals });
    expect(result).toMatchObject({ part: "routes.1", message: expect.stringContaining(message) });
    await close();
  }
});

test.each([
  ["refuses it", { refused: "taken" }, [409, "Taken."]],
  ["refuses it for a reason of a later version", { refused: "new" }, [409, "Nothing was changed."]],
  ["answers nonsense", 1, [503, "The change may have been made"]],
  ["does not answer", undefined, [503, "The change may have been made"]],
])("says whether a change may have been made if the database %s", async (_, answer, [status, message]) => {
  const { context, close } = await startDataApi(answer === undefined ? {} : { change_it: answer });
  const refusals = { taken: { status: 409, message: "Taken." } } as const;
  const admin = { id: "admin", email: "admin@example.com", sessionId: "session" };
  const result = await applyConsoleChange(context, { admin, name: "change_it", change: {}, refusals });
  expect(result).toMatchObject({ outcome: "refused", status, message: expect.stringContaining(String(message)) });
  await close();
});
