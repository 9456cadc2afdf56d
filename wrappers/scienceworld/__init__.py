"""ScienceWorld: school experiments in text, played by the real simulator. Its engine is imported when first used."""
