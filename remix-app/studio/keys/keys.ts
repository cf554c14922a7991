import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { createAiKey, type NewAiCredential } from "#shared/ai-key.ts";
import type { CsvColumn } from "../../http/csv.ts";
import { buildPage, parseCursor, readCursor, writeCursor } from "../../http/list-page.ts";
import { problem } from "../../http/problem.ts";
import { agentsOf, listedAgents } from "../agents/agent-access.ts";
import { callAsMember, type StudioMember } from "../studio-reader.ts";
import { type UnknownModels, unknownModels } from "../unknown-models.ts";
import { approvalAnswer, approvalOf } from "./approval.ts";
import {
  currentKey,
  type IssuedKey,
  type KeyChanges,
  type KeyPage,
  type KeySummary,
  keyPage,
  keySummary,
  type NewKey,
} from "./key-schema.ts";

const rotationAnswer = z.union([
  z.object({ outcome: z.literal("issued"), key: keySummary }),
  z.object({
    outcome: z.enum([
      ...["not_allowed", "not_approved", "not_found", "not_active", "agent_key", "app_not_linked", "too_many"],
      "no_payer",
    ] as const),
  }),
]);
const creationAnswer = z.union([unknownModels, rotationAnswer]);
const notAllowed = z.object({ outcome: z.literal("not_allowed") });
const listed = keyPage.omit({ nextCursor: true }).extend({ outcome: z.literal("listed") });
export const listedKeys = z.union([listed, notAllowed]);
const changeAnswer = z.union([
  unknownModels,
  z.object({ outcome: z.enum(["changed", "changed_meanwhile"]), key: keySummary }),
  z.object({ outcome: z.enum(["not_allowed", "not_approved", "not_found", "not_active", "agent_key"]) }),
]);
const readAnswer = z.union([
  z.object({ outcome: z.literal("read"), approved: z.boolean(), key: keySummary }),
  z.object({ outcome: z.enum(["not_allowed", "not_found"]) }),
]);
const revocationAnswer = z.object({ outcome: z.enum(["revoked", "not_allowed", "not_found"]) });

type Refusal = Exclude<z.infer<typeof rotationAnswer>["outcome"], "issued">;

const refusals: Record<Refusal, { code: Parameters<typeof problem>[0]; detail: string }> = {
  not_allowed: { code: "FORBIDDEN", detail: "Your role in this workspace doesn’t allow you to manage API keys." },
  not_approved: {
    code: "FORBIDDEN",
    detail: "This workspace isn’t approved to create API keys. Request approval on the API keys page.",
  },
  not_found: {
    code: "NOT_FOUND",
    detail: "This workspace doesn’t have this API key. It may belong to another workspace.",
  },
  not_active: {
    code: "CONFLICT",
    detail: "This key no longer works or was already rotated. Reload to see the key that replaced it.",
  },
  agent_key: { code: "CONFLICT", detail: "A coding agent renews this key. Revoke it to stop the agent." },
  app_not_linked: {
    code: "INVALID_REQUEST",
    detail: "externalAppId: no enabled external app linked to this workspace.",
  },
  too_many: { code: "CONFLICT", detail: "The workspace has 200 active API keys. Revoke some first." },
  no_payer: {
    code: "CONFLICT",
    detail: "On this workspace’s plan, members pay for their calls. A key that a service account creates has no payer.",
  },
};

function createRefusalResponse(outcome: Refusal, { requestId }: AppLoadContext): Response {
  const { code, detail } = refusals[outcome];
  return problem(code, { requestId, detail });
}

/** Throws the same error for a malformed id as for an unknown key. */
function requireKeyId(keyId: string, context: AppLoadContext): void {
  if (!z.uuid().safeParse(keyId).success) throw createRefusalResponse("not_found", context);
}

const hex = ({ hash }: NewAiCredential) => Buffer.from(hash).toString("hex");

function readIssued(
  answer: z.output<typeof rotationAnswer>,
  { context, text }: { context: AppLoadContext; text: string },
): IssuedKey {
  if (answer.outcome !== "issued") throw createRefusalResponse(answer.outcome, context);
  return { key: answer.key, secret: text };
}

/**
 * Creates a key. Only this result contains its secret.
 * @returns the key, or the models on its list that are not in the catalogue, in which case no key is created
 * @throws Response 403 FORBIDDEN without permission or approval, 400 if the app is not linked, 409 above 200 keys
 */
export async function createKey(
  context: AppLoadContext,
  { key, ...member }: StudioMember & { key: NewKey },
): Promise<IssuedKey | UnknownModels> {
  const created = await createAiKey();
  const args = { key, lookup: created.lookup, secret_hash: hex(created) };
  const answer = await callAsMember(context, { member, name: "issue_key", args, schema: creationAnswer });
  if (answer.outcome === "unknown_models") return answer;
  return readIssued(answer, { context, text: created.text });
}

/**
 * Replaces a key with a new key that has the same limits, bindings and spend.
 * @param options.overlapSeconds how long the old key remains valid, 0–86,400
 * @throws Response like {@link createKey}; 404 for another workspace's key, 409 for a revoked or expired key
 */
export async function rotateKey(
  context: AppLoadContext,
  { keyId, overlapSeconds, ...member }: StudioMember & { keyId: string; overlapSeconds: number },
): Promise<IssuedKey> {
  requireKeyId(keyId, context);
  const created = await createAiKey();
  const args = { key_id: keyId, overlap_seconds: overlapSeconds, lookup: created.lookup, secret_hash: hex(created) };
  const answer = await callAsMember(context, { member, name: "rotate_key", args, schema: rotationAnswer });
  return readIssued(answer, { context, text: created.text });
}

/**
 * Changes settings of a key that works.
 * @param options.version the key's version that the caller read, or null to skip that check
 * @returns the changed key; without a change, the key that somebody else changed meanwhile, the unknown models, or
 * not_approved if the key would allow more than before, which needs the same approval as a new key
 * @throws Response 403 FORBIDDEN, 404 for another workspace's key, 409 for a key that no longer works or an agent's key
 */
export async function changeKey(
  context: AppLoadContext,
  { keyId, changes, version, ...member }: StudioMember & { keyId: string; changes: KeyChanges; version: string | null },
): Promise<
  { outcome: "changed" | "changed_meanwhile"; key: KeySummary } | { outcome: "not_approved" } | UnknownModels
> {
  requireKeyId(keyId, context);
  const args = { key_id: keyId, changes, read_version: version };
  const answer = await callAsMember(context, { member, name: "change_key", args, schema: changeAnswer });
  if ("key" in answer || answer.outcome === "unknown_models") return answer;
  if (answer.outcome === "not_approved") return { outcome: answer.outcome };
  throw createRefusalResponse(answer.outcome, context);
}

/** Revokes a key immediately. @throws Response 403 FORBIDDEN, 404 NOT_FOUND, 503 UNAVAILABLE */
export async function revokeKey(
  context: AppLoadContext,
  { keyId, ...member }: StudioMember & { keyId: string },
): Promise<void> {
  requireKeyId(keyId, context);
  const args = { key_id: keyId };
  const { outcome } = await callAsMember(context, { member, name: "revoke_key", args, schema: revocationAnswer });
  if (outcome !== "revoked") throw createRefusalResponse(outcome, context);
}

/**
 * Returns a key, and whether its workspace may rotate it.
 * @throws Response 403 FORBIDDEN, 404 NOT_FOUND, 503 UNAVAILABLE
 */
export async function requireKey(
  context: AppLoadContext,
  { keyId, ...member }: StudioMember & { keyId: string },
): Promise<{ key: KeySummary; approved: boolean }> {
  requireKeyId(keyId, context);
  const answer = await callAsMember(context, { member, name: "read_key", args: { key_id: keyId }, schema: readAnswer });
  if (answer.outcome !== "read") throw createRefusalResponse(answer.outcome, context);
  return { key: answer.key, approved: answer.approved };
}

/**
 * Returns a page of a workspace's keys, newest first, and whether the workspace may create more.
 * @throws Response 400 INVALID_REQUEST for an invalid cursor, 403 FORBIDDEN, 503 UNAVAILABLE
 */
export async function listKeys(
  context: AppLoadContext,
  { limit, cursor, ...member }: StudioMember & { limit: number; cursor?: string | undefined },
): Promise<KeyPage> {
  const args = { before: keyPosition(cursor, context), page_size: limit + 1 };
  const answer = await callAsMember(context, { member, name: "list_keys", args, schema: listedKeys });
  return keyPageOf(context, { answer, limit });
}

/** Returns the position at which a page of keys begins. @throws Response 400 INVALID_REQUEST for an invalid cursor */
function keyPosition(cursor: string | undefined, { requestId }: AppLoadContext) {
  return parseCursor(cursor, { read: readCursor, requestId });
}

function keyPageOf<Key extends KeySummary>(
  context: AppLoadContext,
  {
    answer,
    limit,
  }: {
    answer: { outcome: "listed"; approval: KeyPage["approval"]; keys: Key[] } | z.output<typeof notAllowed>;
    limit: number;
  },
): { approval: KeyPage["approval"]; keys: Key[]; nextCursor: string | null } {
  if (answer.outcome !== "listed") throw createRefusalResponse(answer.outcome, context);
  const { records: keys, nextCursor } = buildPage(answer.keys, { limit, cursorOf: writeCursor });
  return { approval: answer.approval, keys, nextCursor };
}

const keysPage = z.object({
  keys: z.union([listed.extend({ keys: z.array(currentKey) }), notAllowed]),
  agents: listedAgents,
  approval: approvalAnswer,
});

/**
 * Returns a page of a workspace's keys, each with the keys that it replaced, the members with agents, and the state of
 * the approval.
 * @throws Response like {@link listKeys}
 */
export async function readKeysPage(
  context: AppLoadContext,
  { limit, cursor, ...member }: StudioMember & { limit: number; cursor: string | undefined },
) {
  const args = { before: keyPosition(cursor, context), page_size: limit + 1, nested: true };
  const found = await callAsMember(context, { member, name: "read_keys_page", args, schema: keysPage });
  return {
    ...keyPageOf(context, { answer: found.keys, limit }),
    agents: agentsOf(context, found.agents),
    approvalState: approvalOf(context, found.approval),
  };
}

export const keyColumns: CsvColumn<KeySummary>[] = [
  { name: "name", value: ({ name }) => name },
  { name: "prefix", value: ({ prefix }) => prefix },
  { name: "environment", value: ({ environment }) => environment },
  { name: "created_at", value: ({ createdAt }) => createdAt },
  { name: "created_by", value: ({ createdBy }) => createdBy },
  { name: "last_used_at", value: ({ lastUsedAt }) => lastUsedAt },
  { name: "expires_at", value: ({ expiresAt }) => expiresAt },
  { name: "revoked_at", value: ({ revokedAt }) => revokedAt },
  { name: "state", value: ({ state }) => state },
  { name: "app", value: ({ externalApp }) => externalApp?.name ?? null },
  { name: "requests_per_minute", value: ({ requestsPerMinute }) => requestsPerMinute },
  { name: "tokens_per_minute", value: ({ tokensPerMinute }) => tokensPerMinute },
  { name: "models", value: ({ allowedModels }) => allowedModels?.join(" ") },
  { name: "addresses", value: ({ allowedAddresses }) => allowedAddresses?.join(" ") },
  { name: "strict", value: ({ strict }) => String(strict) },
  { name: "spent_this_month_usd", value: ({ spentThisMonthUsd }) => spentThisMonthUsd },
  { name: "budget_usd", value: ({ budget }) => budget?.limitUsd ?? null },
  { name: "spent_usd", value: ({ budget }) => budget?.spentUsd ?? null },
  { name: "key_id", value: ({ id }) => id },
  { name: "lineage_id", value: ({ lineageId }) => lineageId },
];
