import { expect, test } from "vitest";
import { readAppCommand } from "./command.ts";

const platform = "Gatehouse";
const read = (line: string, development = false) => readAppCommand(line.split(" "), { development, platform });
const add = "add notes --display-name Notes --reason test";

test("the app command reads the name, kind, origins and scopes of an app to add", () => {
  expect(read(`${add} --origin https://notes.example.com --kind external --scope ai:use`)).toEqual({
    verb: "add",
    name: "notes",
    displayName: "Notes",
    kind: "external",
    origins: ["https://notes.example.com"],
    scopes: ["ai:use"],
    logoutUrl: null,
    resourceUrl: null,
    reason: "test",
  });
});

test("accepts an app's origin with a hostname that only begins like a loopback address, such as 127.evil.example", () => {
  expect(read(`${add} --origin https://127.evil.example`)).toMatchObject({ origins: ["https://127.evil.example"] });
});

test.each([
  "https://notes.example.com/",
  "https://notes.example.com/path",
  "https://notes.example.com:443",
  "https://*.example.com/x",
  "HTTPS://notes.example.com",
  "ftp://notes.example.com",
  "notes.example.com",
])("refuses %s as an app's origin, since it is not a bare origin", (origin) => {
  expect(() => read(`${add} --origin ${origin}`)).toThrow("complete origin");
});

test.each([
  "http://localhost:3100",
  "http://notes.gatehouse.localhost:3100",
  "http://127.0.0.1:3100",
  "http://[::1]:3100",
])("accepts %s as an app's origin in development only", (origin) => {
  expect(() => read(`${add} --origin ${origin}`)).toThrow("development only");
  expect(read(`${add} --origin ${origin}`, true)).toMatchObject({ origins: [origin] });
});

test.each([
  "add notes --display-name Notes --origin https://a.example",
  "add Notes --display-name Notes --origin https://a.example --reason x",
  "add notes --display-name Notes --reason x",
  "rotate-secret notes --overlap 86401 --reason x",
  "rotate-secret notes --overlap -1 --reason x",
  "link notes --workspace 1 --reason x",
  "enable notes",
  "enable notes more --reason x",
  "remove notes --reason x",
  "",
])("the app command refuses %j", (line) => {
  expect(() => read(line)).toThrow();
});

test("the overlap of a secret rotation defaults to 0 and is limited to one day", () => {
  expect(read("rotate-secret notes --reason x")).toMatchObject({ overlapSeconds: 0 });
  expect(read("rotate-secret notes --overlap 86400 --reason x")).toMatchObject({ overlapSeconds: 86_400 });
});

test("the app command prints only the usage if no command is given", () => {
  expect(() => readAppCommand([], { development: false, platform })).toThrow(/^npm run gatehouse -- app list/);
});

test("explains the format of a name when the app's name is missing", () => {
  expect(() => read("disable --reason test")).toThrow(/^a name is 2 to 40 of a–z,/);
});

const addClient = "add charts --kind openid --display-name Charts --reason test";

test("adds an OpenID client with its redirect URIs", () => {
  const options =
    "--redirect-uri https://charts.example/callback --post-logout-redirect-uri https://charts.example/ --logout-url https://charts.example/logout --scope profile --scope workspaces:read";
  expect(read(`${addClient} ${options}`)).toEqual({
    verb: "add-client",
    name: "charts",
    displayName: "Charts",
    isPublic: false,
    redirectUris: ["https://charts.example/callback"],
    postLogoutRedirectUris: ["https://charts.example/"],
    logoutUrl: "https://charts.example/logout",
    allowsDeviceGrant: false,
    requiresPkce: true,
    claimsInIdToken: false,
    groupsWorkspaceId: null,
    scopes: ["profile", "workspaces:read"],
    reason: "test",
  });
});

test("adds a public OpenID client with the device grant and no redirect URI", () => {
  expect(read(`${addClient} --public --device-grant`)).toMatchObject({ isPublic: true, allowsDeviceGrant: true });
});

test.each([
  [addClient, "Name a --redirect-uri"],
  [`${addClient} --public --device-grant --no-pkce`, "can't do without PKCE"],
  [`${addClient} --device-grant --groups-workspace team`, "name a --groups-workspace by its id"],
  [`${addClient} --device-grant --display-name Gаtehouse`, "mixes letters of scripts"],
  ["change charts --display-name GATE-house --reason x", "could be mistaken for Gatehouse itself"],
  [`${add} --origin https://notes.example.com --no-pkce`, "--pkce is for --kind openid"],
  [`${addClient} --redirect-uri http://charts.example/`, "must use https"],
  [`${addClient} --redirect-uri com.example.app:/`, "public clients only"],
  [`${addClient} --redirect-uri https://charts.example/ --origin https://charts.example`, "has no --origin"],
  [`${addClient} --redirect-uri https://charts.example/ --scope ai:use`, "npm run gatehouse -- app list"],
  [`${addClient} --redirect-uri https://charts.example/ --logout-url http://charts.example/`, "must use https"],
  [`${add} --origin https://notes.example.com --redirect-uri https://notes.example.com/`, "is for --kind openid"],
  [`${add} --origin https://notes.example.com --public`, "is for --kind openid"],
  ["change charts --reason test", "Say what to change"],
  ["change charts --display-name Charts", "say why with --reason"],
])("the app command refuses %s and explains: %s", (line, reason) => {
  expect(() => read(line)).toThrow(reason);
});

const manyUris = (count: number) =>
  Array.from({ length: count }, (_, index) => `--redirect-uri https://charts.example/${index}`).join(" ");

test("accepts 20 redirect URIs for an OpenID client and refuses 21", () => {
  expect(read(`${addClient} ${manyUris(20)}`)).toMatchObject({ verb: "add-client" });
  expect(() => read(`${addClient} ${manyUris(21)}`)).toThrow("At most 20");
});

test("changes only the named settings of an app", () => {
  const common = { verb: "change", name: "charts", reason: "x" };
  expect(read("change charts --logout-url none --reason x")).toMatchObject({ ...common, changes: { logoutUrl: null } });
  expect(read("change charts --no-device-grant --reason x")).toMatchObject({
    ...common,
    changes: { allowsDeviceGrant: false },
  });
  expect(read("change charts --no-pkce --claims-in-id-token --groups-workspace none --reason x")).toMatchObject({
    changes: { requiresPkce: false, claimsInIdToken: true, groupsWorkspaceId: null },
  });
  expect(read("change charts --redirect-uri com.example.app:/ --reason x")).toMatchObject({ isPublicRequired: true });
});

test.each([
  ["https://tools.example/mcp", "https://tools.example/mcp"],
  ["https://TOOLS.example:443/", "https://tools.example"],
  ["http://127.0.0.1:4000/mcp", "http://127.0.0.1:4000/mcp"],
  ["none", null],
  ["http://tools.example/mcp", Error],
  ["https://tools.example/mcp?a=b", Error],
  ["https://tools.example/mcp#a", Error],
  ["tools.example", Error],
])("change reads the resource URL %s as %s", (url, expected) => {
  const change = () => read(`change tools --resource-url ${url} --reason x`);
  if (expected === Error) expect(change).toThrow(/resource-url|isn’t the URL/);
  else expect(change()).toMatchObject({ verb: "change", changes: { resourceUrl: expected } });
});

test("only an internal app has a resource URL", () => {
  const options = "--display-name T --origin https://t.example --resource-url https://t.example/mcp --reason x";
  expect(read(`add tools ${options}`)).toMatchObject({ resourceUrl: "https://t.example/mcp" });
  expect(() => read(`add tools --kind external ${options}`)).toThrow("--resource-url is for internal apps");
  expect(() =>
    read(
      `add tools --kind openid --display-name T --redirect-uri https://t.example --resource-url https://t.example --reason x`,
    ),
  ).toThrow("--resource-url is for internal apps");
});
