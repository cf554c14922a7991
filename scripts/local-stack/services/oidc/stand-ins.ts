/** What a provider of this process does as others do. */
export type Shape = {
  /** Whose place it takes, as people know it; the demo provider itself takes nobody's. */
  company?: string;
  /** What its issuer has beyond the base of its addresses. */
  issuerPath: string;
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
  issuerPath: "",
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
    issuerPath: "/v2.0",
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

/** At Microsoft each organisation has a tenant, with addresses and an issuer of its own. This is the demo's. */
export const demoTenant = "8a1f7f0e-0d5b-4d6c-9a40-2b6c7d8e9f01";

/** Below which path a stand-in is. */
export function standInPath(name: StandInName): string {
  return name === "azure" ? `/azure/${demoTenant}` : `/${name}`;
}

/** Where a stand-in is: the base of its addresses. */
export function standInBase(origin: string, name: StandInName): string {
  return `${origin}${standInPath(name)}`;
}

/** A stand-in's issuer. */
export function standInIssuer(origin: string, name: StandInName): string {
  return `${standInBase(origin, name)}${standIns[name].issuerPath}`;
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
