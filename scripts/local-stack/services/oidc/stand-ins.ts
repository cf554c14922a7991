/** What a provider of this process does as others do. */
export type Shape = {
  /** Whose place it takes, as people know it; the demo provider itself takes nobody's. */
  company?: string;
  paths: { authorization: string; token: string; userinfo: string; jwks: string };
  clientAuthentication: "client_secret_basic" | "client_secret_post";
  /** Whether it says who somebody is without being asked for OpenID. */
  alwaysOpenId: boolean;
  /** Whether its ID token says all of somebody, so that no other request is needed. */
  claimsInIdToken: boolean;
  /** Whether it says somebody's name once, beside the code. */
  namesInAnswer: boolean;
  /** Whether it has GitHub's API in place of OpenID's userinfo and ID token. */
  githubApi: boolean;
};

const common = {
  paths: { authorization: "/auth", token: "/token", userinfo: "/userinfo", jwks: "/certs" },
  clientAuthentication: "client_secret_basic",
  alwaysOpenId: false,
  claimsInIdToken: true,
  namesInAnswer: false,
  githubApi: false,
} as const;

/** Stand-ins for providers that take an account with a company, each below `/<name>` of this process. */
export const standIns = {
  google: { ...common, company: "Google", alwaysOpenId: true },
  apple: {
    ...common,
    company: "Apple",
    alwaysOpenId: true,
    namesInAnswer: true,
    clientAuthentication: "client_secret_post",
  },
  azure: {
    ...common,
    company: "Microsoft",
    paths: { ...common.paths, authorization: "/oauth2/v2.0/authorize", token: "/oauth2/v2.0/token" },
  },
  github: {
    ...common,
    company: "GitHub",
    paths: { ...common.paths, authorization: "/login/oauth/authorize", token: "/login/oauth/access_token" },
    alwaysOpenId: true,
    claimsInIdToken: false,
    githubApi: true,
  },
} as const satisfies Record<string, Shape>;

export type StandInName = keyof typeof standIns;
export const standInNames = Object.keys(standIns) as StandInName[];

/** Where a stand-in is: its issuer, and the base of its addresses. */
export function standInIssuer(origin: string, name: StandInName): string {
  return `${origin}/${name}`;
}

const endpoint = (name: string) => `/protocol/openid-connect/${name}`;

/** The demo provider itself, at the root, with its endpoints where Keycloak has them. */
export const demoProvider: Shape = {
  ...common,
  paths: {
    authorization: endpoint("auth"),
    token: endpoint("token"),
    userinfo: endpoint("userinfo"),
    jwks: endpoint("certs"),
  },
  claimsInIdToken: false,
};
