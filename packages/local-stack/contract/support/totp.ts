import { Secret, TOTP } from "otpauth";
import { type Account, newSession, type Session, sessionOf } from "./accounts.ts";
import { call, expectOk } from "./http.ts";

export type Enrolled = { factorId: string; secret: string };

/** Returns the code that an authenticator app shows `steps` half-minutes from now. */
export function codeOf(secret: string, steps = 0): string {
  const totp = new TOTP({ secret: Secret.fromBase32(secret), algorithm: "SHA1", digits: 6, period: 30 });
  return totp.generate({ timestamp: Date.now() + steps * 30_000 });
}

/** Returns a code that is not valid now. */
export function wrongCodeOf(secret: string): string {
  const good = [-2, -1, 0, 1, 2].map((steps) => codeOf(secret, steps));
  return ["000000", "111111", "222222", "333333", "444444", "555555"].find((code) => !good.includes(code)) ?? "999999";
}

export async function enroll(bearer: string, friendly_name = ""): Promise<Enrolled> {
  const body = expectOk(await call("POST /factors", { bearer, body: { factor_type: "totp", friendly_name } }));
  return { factorId: body.id, secret: body.totp.secret };
}

export async function challenge(bearer: string, factorId: string): Promise<string> {
  return expectOk(await call(`POST /factors/${factorId}/challenge`, { bearer, body: {} })).id;
}

export function verifyCode(bearer: string, verification: { factorId: string; challengeId: string; code: string }) {
  const { factorId, challengeId, code } = verification;
  return call(`POST /factors/${factorId}/verify`, { bearer, body: { challenge_id: challengeId, code } });
}

/** Raises a session to aal2 by verifying the factor. */
export async function raise(bearer: string, { factorId, secret }: Enrolled): Promise<Session> {
  const challengeId = await challenge(bearer, factorId);
  return sessionOf(expectOk(await verifyCode(bearer, { factorId, challengeId, code: codeOf(secret) })));
}

/** Creates an account with a verified factor, and the aal2 session that verified it. */
export async function newRaisedSession(): Promise<{ account: Account; factor: Enrolled; before: Session } & Session> {
  const { account, ...before } = await newSession();
  const factor = await enroll(before.accessToken);
  return { account, factor, before, ...(await raise(before.accessToken, factor)) };
}
