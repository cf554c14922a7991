import { RemixBrowser } from "@remix-run/react";
import { StrictMode, startTransition } from "react";
import { hydrateRoot } from "react-dom/client";
import { BrandContext, brandOfDocument } from "./ui/brand.ts";

startTransition(() => {
  hydrateRoot(
    document,
    <StrictMode>
      <BrandContext.Provider value={brandOfDocument(document)}>
        <RemixBrowser />
      </BrandContext.Provider>
    </StrictMode>,
  );
});
