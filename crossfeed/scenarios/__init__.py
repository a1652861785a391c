"""What a process engineer asks a trained model: what will the machine do if it is commanded this?"""
