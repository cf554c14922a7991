import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { recordEvent } from "../activity/record-event.ts";
import { collapseWhitespace } from "../http/collapse-whitespace.ts";
import { problem } from "../http/problem.ts";
import type { User } from "../session/user.ts";
import { deleteWorkspace, renameWorkspace, workspaceNameSchema } from "./create-workspace.ts";
import { workspaceProblem } from "./failures.ts";
import { transferOwnership } from "./members.ts";
import type { WorkspaceAccess } from "./permission.ts";

export const settingsChange = z.discriminatedUnion("intent", [
  z.object({ intent: z.literal("rename"), name: z.string() }),
  z.object({ intent: z.literal("transfer"), userId: z.uuid() }),
  z.object({ intent: z.literal("delete"), confirmation: z.string() }),
]);

export interface SettingsOutcome {
  done: string | null;
  failed: { field: string; message: string } | null;
  /** True once the workspace is deleted. */
  gone: boolean;
}

const createSuccess = (message: string): SettingsOutcome => ({ done: message, failed: null, gone: false });
const createFailure = (field: string, message: string): SettingsOutcome => ({
  done: null,
  failed: { field, message },
  gone: false,
});

/**
 * Renames, transfers or deletes a workspace. The database decides whether the caller is allowed to make the change.
 * @throws Response a problem if the caller is not allowed, or the database did not answer
 */
export async function applySettingsChange(
  context: AppLoadContext,
  options: { user: User; workspace: WorkspaceAccess; change: z.infer<typeof settingsChange> },
): Promise<SettingsOutcome> {
  const { user, workspace, change } = options;
  const { requestId } = context;
  switch (change.intent) {
    case "rename": {
      const name = workspaceNameSchema.safeParse(change.name);
      if (!name.success) return createFailure("name", name.error.issues[0]?.message ?? "Enter a name.");
      const error = await renameWorkspace(user, { workspaceId: workspace.id, name: name.data });
      // Row-level security refused the change.
      if (error?.code === "PT404") {
        throw problem("FORBIDDEN", {
          requestId,
          detail: "Your role doesn’t allow you to change the name. Ask an owner.",
        });
      }
      if (error) throw workspaceProblem(error, { requestId });
      return createSuccess("Name changed.");
    }
    case "transfer": {
      const error = await transferOwnership(user, { workspaceId: workspace.id, userId: change.userId });
      if (error?.code === "PT404") return createFailure("heir", "They’re no longer a member. Choose someone else.");
      if (error) throw workspaceProblem(error, { requestId });
      const details = { workspace: workspace.name };
      await recordEvent(context, { userId: user.id, kind: "workspace_handed_over", details });
      return createSuccess("Ownership transferred. You’re now an admin.");
    }
    case "delete": {
      const typed = collapseWhitespace(change.confirmation);
      // A name without visible characters can exist in the database but cannot be typed.
      if (typed === "" || typed !== collapseWhitespace(workspace.name)) {
        return createFailure("confirmation", "This doesn’t match the workspace’s name. Nothing was deleted.");
      }
      const error = await deleteWorkspace(user, workspace.id);
      if (error) throw workspaceProblem(error, { requestId });
      return { done: null, failed: null, gone: true };
    }
  }
}
