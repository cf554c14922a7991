import { RemixBrowser } from "@remix-run/react";
import { StrictMode, startTransition } from "react";
import { hydrateRoot } from "react-dom/client";
import { BrandContext, readDocumentBrand } from "./ui/brand.ts";

startTransition(() => {
  hydrateRoot(
    document,
    <StrictMode>
      <BrandContext.Provider value={readDocumentBrand(document)}>
        <RemixBrowser />
      </BrandContext.Provider>
    </StrictMode>,
  );
});
