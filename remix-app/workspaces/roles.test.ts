import { expect, test } from "vitest";
import { workspacePermissions } from "./permission.ts";
import { assignableRoles, canEditRole, describeRole, offersFinancePreset, roleLabel } from "./roles.ts";

const roles = [
  { id: "1", name: "owner", is_owner: true, permissions: [], member_budget_usd: null },
  { id: "2", name: "keys", is_owner: false, permissions: ["manage_ai_keys" as const], member_budget_usd: null },
  { id: "3", name: "viewer", is_owner: false, permissions: [], member_budget_usd: null },
];
const names = (access: Parameters<typeof assignableRoles>[1]) => assignableRoles(roles, access).map(({ name }) => name);

test("an owner can assign every role except owner, because ownership is transferred separately", () => {
  expect(names({ isOwner: true, permissions: [] })).toEqual(["keys", "viewer"]);
});

test("members other than the owner can assign roles with no more permissions than their own", () => {
  expect(names({ isOwner: false, permissions: ["manage_members", "manage_ai_keys"] })).toEqual(["keys", "viewer"]);
  expect(names({ isOwner: false, permissions: ["manage_members"] })).toEqual(["viewer"]);
});

test("members who manage members can define roles within their own permissions, but never the owner role", () => {
  const definable = (access: Parameters<typeof canEditRole>[1]) =>
    roles.filter((role) => canEditRole(role, access)).map(({ name }) => name);
  expect(definable({ isOwner: true, permissions: workspacePermissions })).toEqual(["keys", "viewer"]);
  expect(definable({ isOwner: false, permissions: ["manage_members"] })).toEqual(["viewer"]);
  expect(definable({ isOwner: false, permissions: ["manage_ai_keys"] })).toEqual([]);
});

test("a role's name is capitalized and otherwise shown as typed", () => {
  expect(roleLabel("viewer")).toBe("Viewer");
  expect(roleLabel("Key keepers")).toBe("Key keepers");
  expect(roleLabel("key keepers of QA")).toBe("Key keepers of QA");
});

test.each([
  [{ is_owner: true, permissions: [], member_budget_usd: null }, "All permissions, plus transferring ownership."],
  [
    { is_owner: false, permissions: [...workspacePermissions], member_budget_usd: null },
    "All permissions, except transferring ownership.",
  ],
  [{ is_owner: false, permissions: [], member_budget_usd: null }, "Can only see who’s in the workspace."],
  [
    { is_owner: false, permissions: ["use_ai_studio" as const], member_budget_usd: 0 },
    "Call models, and see runs, usage and costs. Starts with a monthly budget of $0.00, so calls are refused until somebody raises it.",
  ],
])("describes the role %j", (role, description) => {
  expect(describeRole(role)).toBe(description);
});

test("offers the Finance role to members who may create it, unless the workspace has it", () => {
  const manager = { isOwner: false, permissions: ["manage_members", "use_ai_studio"] as const };
  expect(offersFinancePreset(roles, manager)).toBe(true);
  expect(offersFinancePreset([{ name: "finance" }], manager)).toBe(false);
  expect(offersFinancePreset(roles, { isOwner: false, permissions: ["manage_members"] })).toBe(false);
  expect(offersFinancePreset(roles, { isOwner: false, permissions: ["use_ai_studio"] })).toBe(false);
});
