import { Button } from "../ui/button.tsx";
import { ConfirmCard } from "../ui/confirm-card.tsx";
import { PostForm } from "../ui/post-form.tsx";
import type { Member } from "./members.ts";

/** Asks before a member is taken out of a workspace, or leaves it. */
export function Removal({
  member,
  self,
  workspace,
  here,
}: {
  member: Pick<Member, "userId" | "name">;
  self: boolean;
  workspace: string;
  /** Address of the members page. */
  here: string;
}) {
  const { userId, name } = member;
  return (
    <ConfirmCard
      title={self ? `Leave ${workspace}?` : `Remove ${name} from ${workspace}?`}
      lead={
        self
          ? "You lose access at once. To come back you need a new invitation."
          : "They lose access at once, in satellite apps too. To come back they need a new invitation."
      }
      cancelTo={here}
    >
      <PostForm action={here}>
        <input type="hidden" name="intent" value="remove" />
        <input type="hidden" name="userId" value={userId} />
        <Button variant="danger" className="wrap-anywhere">
          {self ? "Leave workspace" : `Remove ${name}`}
        </Button>
      </PostForm>
    </ConfirmCard>
  );
}
