"""What tests of every folder share: a scripted model, graphs, histories."""
