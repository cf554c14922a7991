import { expect, test } from "vitest";
import { noRequestedClaims, readRequestedClaims } from "./requested-claims.ts";

// OpenID Connect Core 1.0 section 5.5.
test.each([
  ["{}", noRequestedClaims],
  ['{"id_token":null,"userinfo":null}', noRequestedClaims],
  [
    // The example of section 5.5.
    `{"userinfo":{"given_name":{"essential":true},"nickname":null,"email":{"essential":true},
      "email_verified":{"essential":true},"picture":null,"http://example.info/claims/groups":null},
      "id_token":{"auth_time":{"essential":true},"acr":{"values":["urn:mace:incommon:iap:silver"]}}}`,
    {
      idToken: ["auth_time", "acr"],
      userinfo: ["given_name", "nickname", "email", "email_verified", "picture", "http://example.info/claims/groups"],
      essentialAcr: null,
      subject: null,
    },
  ],
  // Section 5.5.1.1: a voluntary acr never fails the sign-in.
  ['{"id_token":{"acr":{"value":"aal2"}}}', { ...noRequestedClaims, idToken: ["acr"] }],
  ['{"id_token":{"acr":{"essential":true}}}', { ...noRequestedClaims, idToken: ["acr"] }],
  ['{"userinfo":{"acr":{"essential":true,"value":"aal2"}}}', { ...noRequestedClaims, userinfo: ["acr"] }],
  [
    '{"id_token":{"acr":{"essential":true,"value":"aal2"}}}',
    { ...noRequestedClaims, idToken: ["acr"], essentialAcr: ["aal2"] },
  ],
  [
    '{"id_token":{"acr":{"essential":true,"values":["aal2","aal3"]}}}',
    { ...noRequestedClaims, idToken: ["acr"], essentialAcr: ["aal2", "aal3"] },
  ],
  ['{"id_token":{"acr":{"essential":true,"value":7}}}', { ...noRequestedClaims, idToken: ["acr"], essentialAcr: [] }],
  [
    '{"id_token":{"sub":{"value":"248289761001"}}}',
    { ...noRequestedClaims, idToken: ["sub"], subject: "248289761001" },
  ],
  // Members that are not understood are ignored.
  [
    '{"verified_claims":7,"id_token":{"email":{"purpose":"why"},"name":{}}}',
    { ...noRequestedClaims, idToken: ["email", "name"] },
  ],
] as const)("reads the claims parameter %s", (text, claims) => {
  expect(readRequestedClaims(text)).toEqual(claims);
});

const claimNames = (count: number) =>
  JSON.stringify({ id_token: Object.fromEntries(Array.from({ length: count }, (_, nth) => [`claim${nth}`, null])) });

test.each([
  "",
  "email",
  "[]",
  "null",
  '"email"',
  '{"id_token":["email"]}',
  '{"id_token":{"email":true}}',
  '{"id_token":{"email":{"essential":"yes"}}}',
  '{"id_token":{"acr":{"values":"aal2"}}}',
  claimNames(51),
  // The database could not store these names and values.
  '{"id_token":{"email\\u0000":null}}',
  '{"userinfo":{"\\ud800":null}}',
  '{"id_token":{"acr":{"essential":true,"values":["aal2\\u0000"]}}}',
])("refuses the claims parameter %s", (text) => {
  expect(readRequestedClaims(text)).toBeNull();
});

test("accepts 50 claims", () => {
  expect(readRequestedClaims(claimNames(50))?.idToken).toHaveLength(50);
});
