import { z } from "zod";
import { exactUtcText } from "#shared/utc-time.ts";
import { runFacts } from "./run-schema.ts";

const { keyName, keyId, appName, appId, memberName, memberId, credentialSource, entityId } = runFacts.shape;

/** A call that the gateway refused before a run began, as shown to its workspace's members. */
export const refusedCall = z.object({
  id: z.uuid(),
  requestId: z.string(),
  createdAt: exactUtcText,
  /** The model as the request named it. Null if the request was refused before its body was read. */
  model: z.string().nullable(),
  endpoint: z.string(),
  feature: z.string().nullable(),
  entityId,
  credentialSource,
  keyId,
  keyName,
  appId,
  appName,
  memberId,
  memberName,
  streamed: z.boolean(),
  httpStatus: z.number().int(),
  errorCode: z.string(),
  param: z.string().nullable(),
  /** The members of the error except code, message and param. Has no amounts in dollars if the workspace hides them. */
  details: z.record(z.string(), z.unknown()).nullable(),
});

export type RefusedCall = z.infer<typeof refusedCall>;
