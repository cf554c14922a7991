import type { Operation } from "#shared/operation.ts";
import { pageQuery } from "../http/list-page.ts";
import type { ProblemCode } from "../http/problem.ts";
import { workspaceChange, workspaceList, workspaceShown } from "./workspace-api.ts";

const tag = "Workspaces";

export const workspaceOperations: readonly Operation<ProblemCode>[] = [
  {
    id: "listWorkspaces",
    method: "GET",
    path: "/api/v1/workspaces",
    tag,
    summary: "List the caller's workspaces",
    credentials: ["session", "bearer", "appSession"],
    query: pageQuery,
    answers: [
      {
        status: 200,
        description: "A page of workspaces: the personal one first, then the others by name.",
        schema: workspaceList,
      },
    ],
    problems: ["INVALID_REQUEST", "FORBIDDEN", "MFA_REQUIRED"],
  },
  {
    id: "getWorkspace",
    method: "GET",
    path: "/api/v1/workspaces/{workspaceId}",
    tag,
    summary: "Get a workspace",
    credentials: ["session", "bearer", "appSession"],
    answers: [
      { status: 200, description: "The workspace, and the caller's permissions in it.", schema: workspaceShown },
    ],
    problems: ["FORBIDDEN", "MFA_REQUIRED", "NOT_FOUND"],
  },
  {
    id: "renameWorkspace",
    method: "PATCH",
    path: "/api/v1/workspaces/{workspaceId}",
    tag,
    summary: "Rename a workspace",
    credentials: ["session", "bearer", "appSession"],
    body: { schema: workspaceChange, example: { name: "Research" } },
    answers: [{ status: 200, description: "The renamed workspace.", schema: workspaceShown }],
    problems: ["INVALID_REQUEST", "FORBIDDEN", "MFA_REQUIRED", "NOT_FOUND"],
  },
  {
    id: "deleteWorkspace",
    method: "DELETE",
    path: "/api/workspaces/{workspaceId}",
    tag,
    summary: "Delete a workspace",
    description:
      "Requires the manage_workspace_settings permission and an identity confirmation within the last 10 minutes. App sessions are not accepted.",
    credentials: ["session", "bearer"],
    answers: [{ status: 204, description: "The workspace is deleted." }],
    problems: ["FORBIDDEN", "MFA_REQUIRED", "STEP_UP_REQUIRED", "NOT_FOUND", "CONFLICT"],
  },
];
