import type { OAuthFlow, OAuthVerdict } from "./attempts.ts";
import type { OAuthFailure } from "./failures.ts";
import type { OAuthState } from "./state.ts";

export interface VisitFacts {
  payload: OAuthState;
  /** Null if the code is invalid. */
  flow: OAuthFlow | null;
  /** The account that is signed in in this browser. */
  visitor: { id: string; sessionId: string } | null;
  /** Whether the signed-in user has agreed that another account replaces theirs in this browser. */
  agreed: boolean;
  /** The issuer that a Microsoft account must have; null if it could not be determined. */
  tenantIssuer: string | null;
}

/**
 * What to do with a visit to a provider. `ask`: another account is signed in here, and this visit's account would
 * replace it. `refuse`: the visit's changes are undone, and its code is void.
 */
export type VisitDecision =
  | { verdict: Exclude<OAuthVerdict, "refuse"> }
  | { verdict: "ask"; email: string | null }
  | { verdict: "refuse"; failure: OAuthFailure };

/**
 * Decides what to do with a visit to a provider before its code is exchanged. Considers the signed state, the backend's
 * result, and the account that is signed in here.
 */
export function decideVisit({ payload, flow, visitor, agreed, tenantIssuer }: VisitFacts): VisitDecision {
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
  if (flow.identity.addedByApp) return refuse("unconfirmed_link");
  if (!flow.identity.confirmed) return refuse("unfinished_link");
  if (payload.purpose === "reauthenticate") {
    return flow.userId === payload.userId ? { verdict: "sign_in" } : refuse("other_account");
  }
  if (visitor && visitor.id !== flow.userId && !agreed) return { verdict: "ask", email: flow.email };
  return { verdict: "sign_in" };
}

function isBoundTo(payload: Exclude<OAuthState, { purpose: "sign_in" }>, visitor: VisitFacts["visitor"]): boolean {
  return visitor?.id === payload.userId && visitor.sessionId === payload.sessionId;
}

function refuse(failure: OAuthFailure): VisitDecision {
  return { verdict: "refuse", failure };
}
