import { z } from "zod";
import type { PhoneDevice } from "./command.ts";
import type { Caller } from "./phone-session.ts";

/** A problem returned by the platform (RFC 9457). */
export class PlatformRefusal extends Error {
  readonly code: string;
  readonly requestId: string;

  constructor({ detail, code, requestId }: { detail: string; code: string; requestId: string }) {
    super(detail);
    this.code = code;
    this.requestId = requestId;
  }
}

const problem = z.object({
  detail: z.string(),
  code: z.string(),
  requestId: z.string(),
  attemptsLeft: z.number().optional(),
});
const session = z.object({
  user: z.object({ id: z.string(), email: z.string() }),
  aal: z.string(),
  mfa: z.object({ satisfied: z.boolean() }),
});
const workspaces = z.object({ workspaces: z.array(z.object({ id: z.string() })) });
const decided = z.object({ status: z.enum(["approved", "rejected"]) });
const asking = z.object({
  id: z.string(),
  device: z.string(),
  address: z.string(),
  createdAt: z.string(),
  expiresAt: z.string(),
});
const approvals = z.object({ approvals: z.array(asking) });

export function whoAmI(caller: Caller): Promise<z.infer<typeof session>> {
  return send(caller, { path: "/api/v1/auth/session", answer: session });
}

/**
 * Returns the chosen workspace, or else the first one of the account.
 * @throws Error if the account has none
 */
export async function workspaceOf(caller: Caller, chosen: string | null): Promise<string> {
  if (chosen) return chosen;
  const [first] = (await send(caller, { path: "/api/v1/workspaces", answer: workspaces })).workspaces;
  if (first) return first.id;
  throw new Error("This account is in no workspace.");
}

/**
 * Refuses a link from any origin but the platform's. Must be called before anything is sent.
 * @throws Error that names both origins
 */
export function requireOwnOrigin({ base }: Pick<Caller, "base">, { origin }: { origin: string }): void {
  const own = new URL(base).origin;
  if (origin !== own) {
    throw new Error(`This QR code is from ${origin}. Only codes from ${own} are accepted, so nothing was sent.`);
  }
}

/** Reads the details of the device whose QR code requests approval, so that the person can check them. */
export function readLink(
  caller: Caller,
  { id, secret }: { id: string; secret: string },
): Promise<z.infer<typeof asking>> {
  const path = `/api/v1/auth/qr-login/challenges/${id}?${new URLSearchParams({ secret })}`;
  return send(caller, { path, answer: asking });
}

/** Approves or rejects a QR code's request. */
export async function decideLink(
  caller: Caller,
  { id, secret, approve, device }: { id: string; secret: string; approve: boolean; device: PhoneDevice },
): Promise<string> {
  const path = `/api/v1/auth/qr-login/challenges/${id}/${approve ? "approve" : "reject"}`;
  return (await send(caller, { path, body: approve ? { secret, device } : { secret }, answer: decided })).status;
}

export async function pendingApprovals(caller: Caller): Promise<z.infer<typeof approvals>["approvals"]> {
  return (await send(caller, { path: "/api/v1/auth/mfa/mobile/approvals", answer: approvals })).approvals;
}

/** Approves or rejects a request for the second factor. */
export async function answerApproval(
  caller: Caller,
  { id, approve, pairCode, device }: { id: string; approve: boolean; pairCode: string; device: PhoneDevice },
): Promise<string> {
  const path = `/api/v1/auth/mfa/mobile/challenges/${id}/approve`;
  const body = { decision: approve ? "approve" : "reject", pairCode, device };
  return (await send(caller, { path, body, answer: decided })).status;
}

const deviceRequest = z.object({
  userCode: z.string(),
  app: z.object({ displayName: z.string() }),
  rights: z.array(z.string()),
  device: z.string(),
  address: z.string().nullable(),
  place: z.string().nullable(),
  createdAt: z.string(),
});
const deviceAnswer = z.object({ status: z.enum(["approved", "denied"]) });

/** Reads a device's request, identified by the code on the device's screen. */
export function readDeviceRequest(
  caller: Caller,
  { userCode }: { userCode: string },
): Promise<z.infer<typeof deviceRequest>> {
  const path = `/api/v1/auth/device-authorizations/${encodeURIComponent(userCode)}`;
  return send(caller, { path, answer: deviceRequest });
}

/** Approves or denies a device's request. */
export async function answerDeviceRequest(
  caller: Caller,
  { userCode, approve, device }: { userCode: string; approve: boolean; device: PhoneDevice },
): Promise<string> {
  const path = `/api/v1/auth/device-authorizations/${encodeURIComponent(userCode)}/${approve ? "approve" : "deny"}`;
  return (await send(caller, { path, body: approve ? { device } : {}, answer: deviceAnswer })).status;
}

async function send<Answer extends z.ZodType>(
  { base, accessToken }: Caller,
  { path, body, answer }: { path: string; body?: object; answer: Answer },
): Promise<z.output<Answer>> {
  const response = await fetch(new URL(path, base), {
    method: body ? "POST" : "GET",
    headers: { Authorization: `Bearer ${accessToken}`, ...(body ? { "Content-Type": "application/json" } : {}) },
    ...(body ? { body: JSON.stringify(body) } : {}),
  }).catch(() => {
    throw new Error(`${base} does not answer.`);
  });
  const text = await response.text();
  if (response.ok) return answer.parse(JSON.parse(text));
  const refused = problem.safeParse(parsed(text));
  if (!refused.success) throw new Error(`${base} answered ${response.status}.`);
  const { attemptsLeft } = refused.data;
  const left = attemptsLeft === undefined ? "" : ` Attempts left: ${attemptsLeft}.`;
  throw new PlatformRefusal({ ...refused.data, detail: `${refused.data.detail}${left}` });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
