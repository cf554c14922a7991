import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { parseExactJson } from "#shared/exact-json.ts";
import { buildPage, parseCursor, readCursor, writeCursor } from "../../http/list-page.ts";
import { problem } from "../../http/problem.ts";
import { callAsMember, type StudioMember } from "../studio-reader.ts";
import { type Envelope, envelope, type envelopeQuery, type LimitChanges, type NewEnvelope } from "./envelope-schema.ts";

/** Parses a JSON body and keeps all digits of limits. @throws SyntaxError */
export function parseLimits(text: string): unknown {
  return parseExactJson(text, (name) => name === "limitUsd");
}

const notAllowed = z.object({ outcome: z.literal("not_allowed") });
const listedEnvelopes = z.union([
  z.object({ outcome: z.literal("read"), costVisible: z.boolean(), envelopes: z.array(envelope) }),
  notAllowed,
]);

const keyChoice = z.object({ id: z.uuid(), name: z.string() });
/** A key for which a member can open an envelope. */
export type KeyChoice = z.infer<typeof keyChoice>;

const pageAnswer = z.object({
  seesAll: z.boolean(),
  waiting: listedEnvelopes,
  open: listedEnvelopes,
  past: listedEnvelopes,
  keys: z.array(keyChoice),
});

/** An entry of the workspace's activity about an envelope. */
const historyEntry = z.object({
  id: z.number(),
  actorId: z.uuid().nullable(),
  actor: z.string().nullable(),
  action: z.string(),
  subjectId: z.uuid().nullable(),
  subject: z.string().nullable(),
  details: z.record(z.string(), z.unknown()),
  at: z.string(),
});
export type HistoryEntry = z.infer<typeof historyEntry>;

const readAnswer = z.union([
  z.object({
    outcome: z.literal("read"),
    costVisible: z.boolean(),
    envelope,
    history: z.array(historyEntry),
  }),
  z.object({ outcome: z.enum(["not_allowed", "not_found"]) }),
]);

const changeAnswer = z.union([
  z.object({ outcome: z.enum(["changed", "unchanged", "changed_meanwhile", "ended"]), envelope }),
  z.object({ outcome: z.enum(["step_up_required", "bad_end", "not_allowed", "not_found"]) }),
]);

const openAnswer = z.union([
  z.object({ outcome: z.enum(["opened", "exists"]), envelope }),
  z.object({ outcome: z.enum(["too_many", "bad_end", "bad_label", "not_active", "not_allowed", "not_found"]) }),
]);

/**
 * Returns a page of a workspace's envelopes, newest first: all with manage_ai_policy or manage_ai_keys, otherwise those
 * of the member's keys, agents and sessions.
 * @throws Response 400 INVALID_REQUEST for an invalid cursor, 403 FORBIDDEN, 503 UNAVAILABLE
 */
export async function listEnvelopes(
  context: AppLoadContext,
  { state, waiting, limit, cursor, ...member }: StudioMember & z.output<typeof envelopeQuery>,
) {
  const args = {
    states: state,
    before: positionOf(cursor, context),
    page_size: limit + 1,
    waiting: waiting === undefined ? null : waiting === "true",
  };
  const answer = await callAsMember(context, { member, name: "list_envelopes", args, schema: listedEnvelopes });
  return pageOf(context, { answer, limit });
}

/**
 * Returns what the page of a workspace's envelopes shows.
 * @param options.pastStates the states of the past ones
 * @param options.withKeys whether to return the keys for which the member can open one
 * @throws Response as {@link listEnvelopes}
 */
export async function readEnvelopesPage(
  context: AppLoadContext,
  {
    pastStates,
    openCursor,
    pastCursor,
    limit,
    withKeys,
    ...member
  }: StudioMember & {
    pastStates: readonly Envelope["state"][];
    openCursor: string | undefined;
    pastCursor: string | undefined;
    limit: number;
    withKeys: boolean;
  },
) {
  const args = {
    past_states: pastStates,
    open_before: positionOf(openCursor, context),
    past_before: positionOf(pastCursor, context),
    page_size: limit + 1,
    with_keys: withKeys,
  };
  const read = await callAsMember(context, { member, name: "read_envelopes_page", args, schema: pageAnswer });
  return {
    seesAll: read.seesAll,
    keys: read.keys,
    waiting: pageOf(context, { answer: read.waiting, limit }),
    open: pageOf(context, { answer: read.open, limit }),
    past: pageOf(context, { answer: read.past, limit }),
  };
}

function positionOf(cursor: string | undefined, { requestId }: AppLoadContext) {
  return parseCursor(cursor, { read: readCursor, requestId });
}

function pageOf(
  context: AppLoadContext,
  { answer, limit }: { answer: z.output<typeof listedEnvelopes>; limit: number },
): { costVisible: boolean; envelopes: Envelope[]; nextCursor: string | null } {
  if (answer.outcome === "not_allowed") throw refusalProblem(answer.outcome, context);
  const { records: envelopes, nextCursor } = buildPage(answer.envelopes, {
    limit,
    cursorOf: ({ openedAt, id }) => writeCursor({ createdAt: openedAt, id }),
  });
  return { costVisible: answer.costVisible, envelopes, nextCursor };
}

/**
 * Returns an envelope and its history, newest first.
 * @throws Response 403 FORBIDDEN, 404 NOT_FOUND, also for an envelope that the member may not see, 503 UNAVAILABLE
 */
export async function requireEnvelope(
  context: AppLoadContext,
  { envelopeId, ...member }: StudioMember & { envelopeId: string | undefined },
): Promise<{ envelope: Envelope; history: HistoryEntry[]; costVisible: boolean }> {
  const args = { envelope_id: requireId(envelopeId, context) };
  const answer = await callAsMember(context, { member, name: "read_envelope", args, schema: readAnswer });
  if (answer.outcome !== "read") throw refusalProblem(answer.outcome, context);
  return answer;
}

export type ChangeResult =
  | { outcome: "changed" | "unchanged" | "changed_meanwhile" | "ended"; envelope: Envelope }
  | { outcome: "step_up_required" | "bad_end" };

/**
 * Changes the limits of an envelope, or ends it.
 * @param options.isFresh whether the member's last proof of identity is recent, which raising and extending require
 * @param options.version the version that the member read; ending ignores it
 * @throws Response like {@link requireEnvelope}
 */
export async function changeEnvelope(
  context: AppLoadContext,
  {
    envelopeId,
    changes,
    version,
    isFresh,
    ...member
  }: StudioMember & {
    envelopeId: string | undefined;
    changes: LimitChanges | { ended: true };
    version: string | null;
    isFresh: boolean;
  },
): Promise<ChangeResult> {
  const args = { envelope_id: requireId(envelopeId, context), changes, read_version: version, is_fresh: isFresh };
  const answer = await callAsMember(context, { member, name: "change_envelope", args, schema: changeAnswer });
  if (answer.outcome === "not_allowed" || answer.outcome === "not_found") throw refusalProblem(answer.outcome, context);
  return answer as ChangeResult;
}

export type OpenResult =
  | { outcome: "opened" | "exists"; envelope: Envelope }
  | { outcome: "too_many" | "bad_end" | "bad_label" | "not_active" };

/**
 * Opens an envelope. The caller must have checked that the proof of identity is recent.
 * @throws Response 403 FORBIDDEN, 404 NOT_FOUND for a key that the member may not use for it, 503 UNAVAILABLE
 */
export async function openEnvelope(
  context: AppLoadContext,
  { opening, ...member }: StudioMember & { opening: NewEnvelope },
): Promise<OpenResult> {
  const { keyId = null, label = "", limitUsd, calls = null, ttlSeconds, ...rest } = opening;
  const endsAt = ttlSeconds === undefined ? rest.endsAt : new Date(Date.now() + ttlSeconds * 1_000).toISOString();
  const args = { key_id: keyId, label, limits: { limitUsd, calls, endsAt: endsAt ?? null } };
  const answer = await callAsMember(context, { member, name: "open_envelope_for_member", args, schema: openAnswer });
  if (answer.outcome === "not_allowed" || answer.outcome === "not_found") throw refusalProblem(answer.outcome, context);
  return answer as OpenResult;
}

/** Why an envelope can't be opened, as a field of its form and the message for it. */
export const openingFaults = {
  too_many: ["limitUsd", "There are already 1,000 open ones for this key or person. Stop some first."],
  bad_end: ["endsAt", "Choose a time within the next 366 days."],
  bad_label: [
    "label",
    "This key has another label, which all its requests carry. Use that label, or leave this empty.",
  ],
  not_active: ["keyId", "This key no longer works. Choose another one."],
} as const satisfies Record<Exclude<OpenResult["outcome"], "opened" | "exists">, readonly [string, string]>;

const anyId = z.uuid();

function requireId(id: string | undefined, { requestId }: AppLoadContext): string {
  const parsed = anyId.safeParse(id);
  if (parsed.success) return parsed.data;
  throw problem("NOT_FOUND", { requestId });
}

function refusalProblem(outcome: "not_allowed" | "not_found", { requestId }: AppLoadContext): Response {
  if (outcome === "not_found") return problem("NOT_FOUND", { requestId });
  return problem("FORBIDDEN", { requestId, detail: "Your role in this workspace doesn’t allow this." });
}
