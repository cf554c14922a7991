import { z } from "zod";
import { isStorableJson } from "#shared/json-limits.ts";

/** What the parameter `claims` of an authorization request asks for (OpenID Connect Core 1.0 section 5.5). */
export interface RequestedClaims {
  /** Names of claims. The database ignores those that it does not know or the client is not registered for. */
  idToken: string[];
  userinfo: string[];
  /** The values of which `acr` must have one; null if any value will do. */
  essentialAcr: string[] | null;
  /** The account that must be signed in, or null. */
  subject: string | null;
}

export const noRequestedClaims: RequestedClaims = { idToken: [], userinfo: [], essentialAcr: null, subject: null };

const maxClaims = 50;
/** Members that are not understood are ignored (section 5.5). */
const claimsMemberSchema = z
  .record(
    z.string().max(200),
    z
      .looseObject({
        essential: z.boolean().optional(),
        value: z.unknown().optional(),
        values: z.array(z.unknown()).optional(),
      })
      .nullable(),
  )
  .refine((claims) => Object.keys(claims).length <= maxClaims)
  .nullish();
const claimsRequest = z.looseObject({ id_token: claimsMemberSchema, userinfo: claimsMemberSchema });

/** Reads the parameter `claims`, or returns null if it is not the JSON that the specification describes. */
export function readRequestedClaims(text: string): RequestedClaims | null {
  const value = parseJson(text);
  const parsed = claimsRequest.safeParse(value);
  if (!parsed.success || !isStorableJson(value)) return null;
  const { id_token: idToken, userinfo } = parsed.data;
  const acr = idToken?.acr;
  const subject = idToken?.sub?.value ?? userinfo?.sub?.value;
  return {
    idToken: Object.keys(idToken ?? {}),
    userinfo: Object.keys(userinfo ?? {}),
    // Section 5.5.1.1: only an essential acr with values can fail the sign-in.
    essentialAcr: acr?.essential ? valuesOf(acr) : null,
    subject: subject === undefined ? null : String(subject),
  };
}

function valuesOf({ value, values }: { value?: unknown; values?: unknown[] | undefined }): string[] | null {
  if (value === undefined && values === undefined) return null;
  return (values ?? [value]).filter((acr) => typeof acr === "string");
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
