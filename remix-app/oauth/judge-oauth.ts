import type { OAuthFlow, OAuthVerdict } from "./attempts.ts";
import type { OAuthFailure } from "./failures.ts";
import type { OAuthState } from "./state.ts";

export interface Judged {
  payload: OAuthState;
  /** Null where the code is good for nothing. */
  flow: OAuthFlow | null;
  /** Who is signed in in this browser. */
  visitor: { id: string; sessionId: string } | null;
  /** Whether they have said that another account may take their place here. */
  agreed: boolean;
  /** The issuer that an account at Microsoft must be of; null where it could not be found out. */
  tenantIssuer: string | null;
}

/**
 * What to do with a visit to a provider. `ask`: somebody else is signed in here, whose place the account would take.
 * `refuse`: what it made is undone, and its code is void.
 */
export type Judgement =
  | { verdict: Exclude<OAuthVerdict, "refuse"> }
  | { verdict: "ask"; email: string | null }
  | { verdict: "refuse"; failure: OAuthFailure };

/** Judges a visit before its code is exchanged: by what we signed, what the backend made of it, and who is here. */
export function judgeVisit({ payload, flow, visitor, agreed, tenantIssuer }: Judged): Judgement {
  if (!flow) return refuse("expired");
  if (payload.purpose !== "sign_in" && !isBoundTo(payload, visitor)) return refuse("expired");
  if (payload.provider === "azure" && (tenantIssuer === null || flow.identity.issuer !== tenantIssuer)) {
    return refuse(tenantIssuer === null ? "unavailable" : "tenant");
  }
  if (flow.closed) return refuse("closed");
  if (payload.purpose === "link") {
    return flow.linkedTo === payload.userId && flow.userId === payload.userId ? { verdict: "link" } : refuse("expired");
  }
  if (flow.linkedTo !== null) return refuse("expired");
  if (!flow.identity.confirmed) return refuse("unfinished_link");
  if (payload.purpose === "reauthenticate") {
    return flow.userId === payload.userId ? { verdict: "sign_in" } : refuse("other_account");
  }
  if (visitor && visitor.id !== flow.userId && !agreed) return { verdict: "ask", email: flow.email };
  return { verdict: "sign_in" };
}

function isBoundTo(payload: Exclude<OAuthState, { purpose: "sign_in" }>, visitor: Judged["visitor"]): boolean {
  return visitor?.id === payload.userId && visitor.sessionId === payload.sessionId;
}

function refuse(failure: OAuthFailure): Judgement {
  return { verdict: "refuse", failure };
}
