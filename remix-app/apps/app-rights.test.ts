import { describe, expect, test } from "vitest";
import {
  appScopes,
  describeAppRights,
  describeDisconnection,
  describeSessionRights,
  describeTokenRight,
} from "./app-rights.ts";

const held = { connectedAt: "", renewedAt: "", endsAt: "" };
const unnamed = "Recognize your account, without your name or email";

describe("what an app may do", () => {
  test.each<[string[], string[]]>([
    [
      ["profile", "workspaces:read", "workspaces:write"],
      [
        "See your name, email and picture",
        "See your workspaces and your role in each",
        "Rename workspaces whose settings you manage",
      ],
    ],
    [
      ["workspaces:read", "workspaces:write"],
      [unnamed, "See your workspaces and your role in each", "Rename workspaces whose settings you manage"],
    ],
    [
      ["studio:read", "profile"],
      ["See your name, email and picture", "See AI costs and invoices of your workspaces"],
    ],
    [
      ["workspace:session", "ai:use"],
      [unnamed, "Use AI models in your workspaces that are linked to it, without speech"],
    ],
    [
      ["workspace:session", "ai:use", "tts:use"],
      [unnamed, "Use AI models and speech in your workspaces that are linked to it"],
    ],
    [["ai:use"], [unnamed]],
    [[], [unnamed]],
  ])("describes in plain words the rights of an app with the scopes %j", (scopes, rights) => {
    expect(describeAppRights({ scopes })).toEqual(rights);
  });

  test("every scope has a description, before and after the app is connected", () => {
    const scopes = appScopes.map(({ scope }) => scope);
    const missing = (scope: string) => {
      const others = scopes.filter((other) => other !== scope);
      return JSON.stringify(describeAppRights({ scopes })) === JSON.stringify(describeAppRights({ scopes: others }));
    };
    expect(scopes.filter(missing)).toEqual([]);
    const connected = [
      ...describeSessionRights({ scopes }),
      describeTokenRight({ ...held, workspace: "W", scopes }) ?? "",
    ];
    expect(connected.map((right) => right.replace(/ W$/, " your workspaces that are linked to it"))).toEqual(
      describeAppRights({ scopes }),
    );
  });
});

test.each([
  [["profile"], false],
  [["profile", "studio:keys"], true],
])("for an app with the login scopes %j, the disconnect notice mentions coding agents: %j", (scopes, stops) => {
  const login = { ...held, scopes, resources: [] };
  const app = { name: "a", displayName: "A", origins: [], session: null, login, consent: null, tokens: [] };
  expect(describeDisconnection(app).includes("Coding agents that it connected stop working.")).toBe(stops);
});
