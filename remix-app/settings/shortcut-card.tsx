import { Button } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";

/** Turns the search shortcut of this browser off or on. search-key.js shows the button that applies. */
export function ShortcutCard() {
  return (
    <div className="noscript:hidden">
      <Card
        title="Search shortcut"
        lead="Press / to jump to the search field on pages that have one. Applies to this browser."
        action={
          <>
            <Button type="button" variant="secondary" data-search-key-choice="off">
              Turn off
            </Button>
            <Button type="button" variant="secondary" data-search-key-choice="on">
              Turn on
            </Button>
          </>
        }
      />
    </div>
  );
}
