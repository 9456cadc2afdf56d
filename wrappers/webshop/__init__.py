"""WebShop: shopping for what an instruction asks for, in text. Its engine is imported when first used."""
