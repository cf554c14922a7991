import { Button } from "../../ui/button.tsx";
import { ConfirmCard } from "../../ui/confirm-card.tsx";
import { PostForm } from "../../ui/post-form.tsx";

/** Asks before a key ends, which no program that has it survives. */
export function KeyRevocation({
  keyId,
  name,
  here,
}: {
  keyId: string;
  name: string;
  /** Address of the list that it is on. */
  here: string;
}) {
  return (
    <ConfirmCard
      title={`Revoke ${name}?`}
      lead="Programs that use it are refused from their next call on, for good. To replace it without a gap, rotate it instead."
      cancelTo={here}
    >
      <PostForm action={here}>
        <input type="hidden" name="intent" value="revoke" />
        <input type="hidden" name="keyId" value={keyId} />
        <Button variant="danger">Revoke key</Button>
      </PostForm>
    </ConfirmCard>
  );
}
