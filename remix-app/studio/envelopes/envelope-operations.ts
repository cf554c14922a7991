import type { Operation } from "#shared/operation.ts";
import type { ProblemCode } from "../../http/problem.ts";
import { envelopeAnswer, envelopeChange, envelopePage, envelopeQuery, newEnvelope } from "./envelope-schema.ts";

const basePath = "/api/v1/workspaces/{workspaceId}/ai/envelopes";
const memberFields = { tag: "AI studio", credentials: ["session", "bearer"] } as const;
const commonProblems = ["FORBIDDEN", "MFA_REQUIRED", "NOT_FOUND"] as const satisfies ProblemCode[];
const accessNote =
  "Members with the manage_ai_policy or manage_ai_keys permission see and change all envelopes; others those of their own keys, agents and sessions.";

/** API operations about envelopes, the limits of single tasks. */
export const envelopeOperations: readonly Operation<ProblemCode>[] = [
  {
    ...memberFields,
    id: "listEnvelopes",
    method: "GET",
    path: basePath,
    summary: "List envelopes",
    description: `${accessNote} state is a comma-separated list of open, ended (by a person) and expired, and defaults to all. waiting=true selects those that have refused a call since their limits were last raised. Amounts spent are null if the workspace hides provider cost.`,
    query: envelopeQuery,
    answers: [{ status: 200, description: "A page of envelopes, newest first.", schema: envelopePage }],
    problems: ["INVALID_REQUEST", ...commonProblems],
  },
  {
    ...memberFields,
    id: "openEnvelope",
    method: "POST",
    path: basePath,
    summary: "Open an envelope",
    description:
      "Limits the calls of a key or, without keyId, the member's own calls: those with the label, or all of them without a label. Replaces an envelope that has ended or expired. An envelope lasts 30 days unless ttlSeconds or endsAt says otherwise. Requires a recent identity confirmation.",
    body: { schema: newEnvelope, example: { label: "release-notes", limitUsd: 5, calls: 200, ttlSeconds: 3600 } },
    answers: [{ status: 201, description: "The envelope is open.", schema: envelopeAnswer }],
    problems: ["INVALID_REQUEST", "STEP_UP_REQUIRED", "CONFLICT", ...commonProblems],
  },
  {
    ...memberFields,
    id: "getEnvelope",
    method: "GET",
    path: `${basePath}/{envelopeId}`,
    summary: "Get an envelope",
    description: accessNote,
    answers: [{ status: 200, description: "The envelope.", schema: envelopeAnswer }],
    problems: [...commonProblems],
  },
  {
    ...memberFields,
    id: "changeEnvelope",
    method: "PATCH",
    path: `${basePath}/{envelopeId}`,
    summary: "Change or end an envelope",
    description: `${accessNote} Changes the given limits, and requires the version that you read. A later endsAt resumes an expired envelope. Raising a limit or extending the end requires a recent identity confirmation; lowering does not. ended: true stops its calls for good, and needs neither a version nor a confirmation.`,
    body: { schema: envelopeChange, example: { limitUsd: 10, version: "0cc175b9c0f1b6a831c399e269772661" } },
    answers: [{ status: 200, description: "The changed envelope.", schema: envelopeAnswer }],
    problems: ["INVALID_REQUEST", "STEP_UP_REQUIRED", "CONFLICT", ...commonProblems],
  },
];
