import type { Person } from "./oauth-provider.ts";

/** The endpoints, claims and API responses in which a provider differs from the others. */
export type Shape = {
  /** The provider's real origin, if Supabase Auth cannot be configured with another one. */
  origin?: string;
  token: string;
  /** The path of the authorization endpoint in the provider's discovery document. */
  authorize?: string;
  /** Accepts client credentials only in the body. */
  credentialsInBody?: boolean;
  /** The claims that the provider adds to those that OpenID Connect requires in an ID token. */
  idToken?: (person: Person) => Record<string, unknown>;
  /** The responses of the provider's API, by path. */
  api?: Readonly<Record<string, (person: Person) => unknown>>;
};

const openId = ({ email, verified = true, name = "Someone" }: Person) => ({ email, email_verified: verified, name });
const ownAddress = ({ email, verified = true }: Person) => (email ? [{ email, verified, primary: true }] : []);

export const shapes = {
  keycloak: {
    token: "/protocol/openid-connect/token",
    api: { "/protocol/openid-connect/userinfo": (person) => ({ sub: person.sub, ...openId(person), group: "staff" }) },
  },
  github: {
    token: "/login/oauth/access_token",
    api: {
      "/api/v3/user": ({ sub, name = "Someone" }) => ({
        id: Number(sub),
        login: "someone",
        name,
        email: null,
        avatar_url: "https://faces.example.test/1",
      }),
      "/api/v3/user/emails": (person) => [
        ...(person.others ?? []).map((email) => ({ email, verified: true, primary: false })),
        ...ownAddress(person),
      ],
    },
  },
  gitlab: {
    token: "/oauth/token",
    api: {
      "/api/v4/user": ({ sub, email, verified = true, name = "Someone" }) => ({
        id: Number(sub),
        name,
        email,
        avatar_url: "https://faces.example.test/1",
        confirmed_at: verified ? "2020-01-01T00:00:00Z" : null,
      }),
      "/api/v4/user/emails": ({ others = [] }) => others.map((email, index) => ({ id: index, email })),
    },
  },
  slack_oidc: {
    token: "/api/openid.connect.token",
    api: {
      "/api/openid.connect.userInfo": (person) => ({
        ok: true,
        sub: person.sub,
        "https://slack.com/user_id": person.sub,
        "https://slack.com/team_id": "T1",
        picture: "https://faces.example.test/1",
        ...openId(person),
      }),
    },
  },
  azure: {
    token: "/oauth2/v2.0/token",
    authorize: "/oauth2/v2.0/authorize",
    idToken: (person) => ({ ...openId(person), preferred_username: person.email }),
  },
  google: {
    origin: "https://accounts.google.com",
    token: "/token",
    authorize: "/o/oauth2/v2/auth",
    idToken: (person) => ({ ...openId(person), picture: "https://faces.example.test/1" }),
  },
  apple: {
    origin: "https://appleid.apple.com",
    token: "/auth/token",
    authorize: "/auth/authorize",
    credentialsInBody: true,
    idToken: ({ email, verified = true }) => ({ email, email_verified: String(verified), is_private_email: "true" }),
  },
  linkedin_oidc: {
    origin: "https://api.linkedin.com",
    token: "/oauth/v2/accessToken",
    credentialsInBody: true,
    idToken: ({ email, verified = true }) => ({
      email,
      email_verified: String(verified),
      given_name: "Some",
      family_name: "One",
      picture: "https://faces.example.test/1",
    }),
  },
} as const satisfies Record<string, Shape>;

export type ProviderName = keyof typeof shapes;
export const providerNames = Object.keys(shapes) as ProviderName[];

/** Public issuer URLs that the server accepts in the providers' ID tokens. */
export const issuers = {
  google: "https://accounts.google.com",
  apple: "https://appleid.apple.com",
  appleOther: "https://account.apple.com",
  linkedin_oidc: "https://www.linkedin.com/oauth",
  microsoft: "https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0",
} as const;
